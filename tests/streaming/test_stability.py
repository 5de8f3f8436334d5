"""Committed words: agreed, sure, held back, append-only."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.stability import DECODER_ALONE, WITH_CTC, Heard, Rule, Stability

RULES = pytest.mark.parametrize("rule", [DECODER_ALONE, WITH_CTC])


def words(text: str, sure: float = 1.0, after: float = 1.0) -> list[Heard]:
    """Words with made-up tokens, equal for equal words."""
    return [Heard(w, tuple(w.encode()), sure, after) for w in text.split()]


def certain() -> Sequence[float]:
    """A CTC head that has no doubt, of any number of words."""
    return [0.0] * 100


def unasked() -> Sequence[float]:
    """A CTC head that must not be asked."""
    raise AssertionError


def hear(stability: Stability, text: str, times: int, seconds: float = 5.0) -> None:
    """The same hypothesis, several times."""
    for _ in range(times):
        stability.update(words(text), seconds, certain)


@RULES
def test_words_are_committed_once_enough_hypotheses_agree(rule: Rule) -> None:
    """The agreeing prefix less the held-back words, not before."""
    stability = Stability(rule)
    hear(stability, "the cat sat on the mat", rule.agreement - 1)
    assert stability.words == ()
    stability.update(words("the cat sat on the mat today"), 5.3, certain)
    assert stability.words == ("the", "cat", "sat", "on", "the", "mat")[: 7 - rule.hold_back]


def test_a_rule_may_ask_one_hypothesis() -> None:
    """Then nothing has to agree."""
    stability = Stability(replace(WITH_CTC, agreement=1))
    hear(stability, "one two three", 1)
    hear(stability, "one two four five", 1)
    assert stability.words == ("one", "two", "four")


@RULES
def test_a_difference_stops_the_commit(rule: Rule) -> None:
    """Nothing at or behind the first word that differed in any of them."""
    stability = Stability(rule)
    hear(stability, "the bat sat on the mat", 1)
    hear(stability, "the cat sat on the mat", rule.agreement - 1)
    assert stability.words == ("the",)


@RULES
def test_an_unsure_word_stops_the_commit(rule: Rule) -> None:
    """A word that was once heard with doubt waits, and the words after it."""
    stability = Stability(rule)
    doubt = words("one two three four five")
    doubt[1] = replace(doubt[1], sure=exp(rule.bound) - 0.01)
    stability.update(doubt, 5.0, certain)
    hear(stability, "one two three four five", rule.agreement - 1)
    assert stability.words == ("one",)
    hear(stability, "one two three four five", 1)
    assert len(stability.words) == 5 - rule.hold_back


def test_a_word_that_may_go_on_stops_the_commit() -> None:
    """Where the decoder doubts the token after it; the models without a CTC head do without this."""
    text = words("it may be so now then")
    text[1] = replace(text[1], after=0.1)
    for rule, committed in ((WITH_CTC, ("it",)), (DECODER_ALONE, ("it", "may", "be", "so"))):
        stability = Stability(rule)
        for _ in range(rule.agreement):
            stability.update(text, 5.0, certain)
        assert stability.words == committed


def test_a_word_that_the_ctc_head_does_not_hear_stops_the_commit() -> None:
    """However sure the decoder is; one that it half hears may still be committed."""
    stability = Stability(WITH_CTC)
    scores = [0.0, WITH_CTC.bound / WITH_CTC.ctc + 0.1, WITH_CTC.bound / WITH_CTC.ctc - 0.1, 0.0, 0.0]
    for _ in range(WITH_CTC.agreement):
        stability.update(words("one two three four five"), 5.0, lambda: scores)
    assert stability.words == ("one", "two")


def test_a_text_that_cannot_be_aligned_commits_nothing() -> None:
    """Its words have no score."""
    stability = Stability(WITH_CTC)
    for _ in range(2 * WITH_CTC.agreement):
        stability.update(words("one two three four five"), 5.0, lambda: [-inf] * 5)
    assert stability.words == ()


def test_doubts_add_up() -> None:
    """Each would pass alone: the word, what follows it, what the CTC head says."""
    third = WITH_CTC.bound / 2.5
    for sure, after, score, committed in (
        (third, 0.0, third / WITH_CTC.ctc, True),
        (0.0, third / WITH_CTC.after, third / WITH_CTC.ctc, True),
        (third, third / WITH_CTC.after, third / WITH_CTC.ctc, False),
    ):
        stability = Stability(WITH_CTC)
        text = words("one two three", exp(sure), exp(after))
        for _ in range(WITH_CTC.agreement):
            stability.update(text, 5.0, lambda score=score: [score] * 3)
        assert bool(stability.words) == committed


def test_the_ctc_head_is_asked_once_and_only_where_it_decides() -> None:
    """Not before enough agree, not for words that it could not save, never by the other rule."""
    asked = list[int]()

    def scores() -> Sequence[float]:
        asked.append(1)
        return certain()

    stability = Stability(WITH_CTC)
    stability.update(words("one two three four"), 5.0, unasked)
    for _ in range(WITH_CTC.agreement - 1):
        stability.update(words("one two three four"), 5.0, scores)
    assert stability.words == ("one", "two", "three") and len(asked) == 1
    stability.update(words("one two three four"), 5.0, unasked)
    for _ in range(WITH_CTC.agreement):
        stability.update(words("one two three four five", sure=0.1), 5.0, unasked)

    stability = Stability(DECODER_ALONE)
    for _ in range(DECODER_ALONE.agreement):
        stability.update(words("one two three four"), 5.0, unasked)
    assert stability.words == ("one", "two")


@RULES
def test_little_audio_commits_nothing(rule: Rule) -> None:
    """Below the minimum evidence a prefix is never fixed."""
    stability = Stability(rule)
    hear(stability, "one two three four five six", 2 * rule.agreement, rule.seconds - 0.1)
    assert stability.words == ()


def test_retracted_are_the_committed_words_that_the_final_lacks() -> None:
    """A word in the middle, the last ones, or all of them."""
    stability = Stability(DECODER_ALONE)
    hear(stability, "a b c d e f g", DECODER_ALONE.agreement)
    assert stability.words == ("a", "b", "c", "d", "e")
    assert stability.retracted(["a", "b", "c", "d", "e", "f"]) == 0
    assert stability.retracted(["a", "b", "x", "d", "e"]) == 1
    assert stability.retracted(["a", "b"]) == 3
    assert stability.retracted([]) == 5
    assert stability.keeps(["a", "b", "c", "d", "e", "z"])
    assert not stability.keeps(["a", "b", "x", "d", "e", "f"])


@RULES
@given(tails=st.lists(st.lists(st.sampled_from("abc"), max_size=9), max_size=20))
def test_commits_only_grow(rule: Rule, tails: list[list[str]]) -> None:
    """Hypotheses that continue what is committed never shorten or change it."""
    stability = Stability(rule)
    for tail in tails:
        before = stability.words
        stability.update(words(" ".join([*before, *tail])), 10.0, certain)
        assert stability.words[: len(before)] == before
        assert stability.tokens == tuple(t for w in stability.words for t in w.encode())
