"""Committed words: agreed, sure, held back, append-only."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.stability import AGREEMENT, HOLD_BACK, MIN_EVIDENCE, SURE, Heard, Stability


def words(text: str, sure: float = 1.0) -> list[Heard]:
    """Words with made-up tokens, equal for equal words."""
    return [Heard(w, tuple(w.encode()), sure) for w in text.split()]


def hear(stability: Stability, text: str, times: int, seconds: float = 5.0) -> None:
    """The same hypothesis, several times."""
    for _ in range(times):
        stability.update(words(text), seconds)


def test_words_are_committed_once_enough_hypotheses_agree() -> None:
    """The agreeing prefix less the held-back words, not before."""
    stability = Stability()
    hear(stability, "the cat sat on the mat", AGREEMENT - 1)
    assert stability.words == ()
    stability.update(words("the cat sat on the mat today"), 5.3)
    assert stability.words == ("the", "cat", "sat", "on", "the")[: 7 - HOLD_BACK]


def test_a_difference_stops_the_commit() -> None:
    """Nothing at or behind the first word that differed in any of them."""
    stability = Stability()
    hear(stability, "the bat sat on the mat", 1)
    hear(stability, "the cat sat on the mat", AGREEMENT - 1)
    assert stability.words == ("the",)


def test_an_unsure_word_stops_the_commit() -> None:
    """A word that was once heard with doubt waits, and the words after it."""
    stability = Stability()
    hear(stability, "one two three four five", AGREEMENT - 1)
    doubt = words("one two three four five")
    doubt[1] = Heard("two", doubt[1].tokens, SURE - 0.01)
    stability.update(doubt, 5.0)
    assert stability.words == ("one",)


def test_little_audio_commits_nothing() -> None:
    """Below the minimum evidence a prefix is never fixed."""
    stability = Stability()
    hear(stability, "one two three four five six", 2 * AGREEMENT, MIN_EVIDENCE - 0.1)
    assert stability.words == ()


def test_retracted_are_the_committed_words_that_the_final_lacks() -> None:
    """A word in the middle, the last ones, or all of them."""
    stability = Stability()
    hear(stability, "a b c d e f g", AGREEMENT)
    assert stability.words == ("a", "b", "c", "d", "e")
    assert stability.retracted(["a", "b", "c", "d", "e", "f"]) == 0
    assert stability.retracted(["a", "b", "x", "d", "e"]) == 1
    assert stability.retracted(["a", "b"]) == 3
    assert stability.retracted([]) == 5
    assert stability.keeps(["a", "b", "c", "d", "e", "z"])
    assert not stability.keeps(["a", "b", "x", "d", "e", "f"])


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=9), max_size=20))
def test_commits_only_grow(tails: list[list[str]]) -> None:
    """Hypotheses that continue what is committed never shorten or change it."""
    stability = Stability()
    for tail in tails:
        before = stability.words
        stability.update(words(" ".join([*before, *tail])), 10.0)
        assert stability.words[: len(before)] == before
        assert stability.tokens == tuple(t for w in stability.words for t in w.encode())
