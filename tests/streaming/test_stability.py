"""Committed words: agreed, held back, append-only."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.stability import HOLD_BACK, MIN_EVIDENCE, Stability

Words = list[tuple[str, tuple[int, ...]]]


def words(text: str) -> Words:
    """Words with made-up tokens, equal for equal words."""
    return [(w, tuple(w.encode())) for w in text.split()]


def test_words_are_committed_once_two_hypotheses_agree() -> None:
    """The agreeing prefix less the held-back words, not before."""
    stability = Stability()
    stability.update(words("the cat sat on the mat"), 5.0)
    assert stability.words == ()
    stability.update(words("the cat sat on the mat today"), 5.3)
    assert stability.words == ("the", "cat", "sat", "on", "the")[: 7 - HOLD_BACK]


def test_a_difference_stops_the_commit() -> None:
    """Nothing at or behind the first differing word."""
    stability = Stability()
    stability.update(words("the cat sat on the mat"), 5.0)
    stability.update(words("the bat sat on the mat"), 5.3)
    assert stability.words == ("the",)


def test_little_audio_commits_nothing() -> None:
    """Below the minimum evidence a prefix is never fixed."""
    stability = Stability()
    for _ in range(3):
        stability.update(words("one two three four five six"), MIN_EVIDENCE - 0.1)
    assert stability.words == ()


def test_retracted_counts_from_the_first_difference() -> None:
    """A final that differs in the middle takes back everything after it."""
    stability = Stability()
    for _ in range(2):
        stability.update(words("a b c d e f g"), 5.0)
    assert stability.words == ("a", "b", "c", "d", "e")
    assert stability.retracted(["a", "b", "c", "d", "e", "f"]) == 0
    assert stability.retracted(["a", "b", "x", "d", "e"]) == 3
    assert stability.retracted([]) == 5


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=9), max_size=12))
def test_commits_only_grow(tails: list[list[str]]) -> None:
    """Hypotheses that continue what is committed never shorten or change it."""
    stability = Stability()
    for tail in tails:
        before = stability.words
        stability.update(words(" ".join([*before, *tail])), 10.0)
        assert stability.words[: len(before)] == before
        assert stability.tokens == tuple(t for w in stability.words for t in w.encode())
