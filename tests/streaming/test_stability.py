"""Committed words: hypotheses agree on them, the model is sure of them, and they are never taken back by an interim."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.files import load_tokenizer
from streaming.events import MARKS, bare
from streaming.prompt import Prompt
from streaming.stability import AFTER, AGREEMENT, DECODER_ALONE, WITH_CTC, Rule, Stability, TokenWord

PROMPT = Prompt(load_tokenizer(Path(__file__).parents[2] / "models/pocket-asr-en/tokenizer.json"), leading_space=True)
RULES = pytest.mark.parametrize("rule", [DECODER_ALONE, WITH_CTC])


def words(text: str, sure: float = 1.0, after: float = 1.0) -> list[TokenWord]:
    """Words with made-up tokens, which are equal for equal words; no token follows the last one."""
    found: list[TokenWord] = []
    for word in text.split():
        stem = bare(word)
        found.append(TokenWord(stem, tuple(stem.encode()), tuple(word[len(stem) :].encode()), sure, after))
    return [*found[:-1], *(replace(last, after=0.0) for last in found[-1:])]


def certain() -> Sequence[float]:
    """The scores of a CTC head that is certain of every word."""
    return [0.0] * 100


def unasked() -> Sequence[float]:
    """A CTC head that must not be asked."""
    raise AssertionError


def hear(stability: Stability, text: str, times: int) -> None:
    """Take in the same hypothesis several times."""
    for _ in range(times):
        stability.update(words(text), certain)


@RULES
def test_words_are_committed_once_enough_hypotheses_agree(rule: Rule) -> None:
    """The prefix on which enough hypotheses agree is committed, but for the last word, which waits for the token after
    it."""
    stability = Stability(rule)
    hear(stability, "the cat sat on the mat", AGREEMENT - 1)
    assert stability.words == ()
    stability.update(words("the cat sat on the mat today"), certain)
    assert stability.words == ("the", "cat", "sat", "on", "the", "mat")


@RULES
def test_a_final_in_a_pause_needs_no_second_opinion(rule: Rule) -> None:
    """A final in a pause commits words at once, the last one too, but none that it doubts."""
    stability = Stability(rule)
    pause = [*words("the cat sat on the")[:-1], *words("the mat now")[:2], TokenWord("now", (9,), (), 1.0, 1.0)]
    stability.update(pause, certain, pause=True)
    assert stability.words == ("the", "cat", "sat", "on", "the", "mat", "now")
    stability = Stability(rule)
    pause[2] = replace(pause[2], sure=exp(rule.bound - rule.pause) - 0.01)
    stability.update(pause, certain, pause=True)
    assert stability.words == ("the", "cat")


@RULES
def test_a_difference_stops_the_commit(rule: Rule) -> None:
    """No word is committed from the first one on that differs between hypotheses."""
    stability = Stability(rule)
    hear(stability, "the bat sat on the mat", 1)
    hear(stability, "the cat sat on the mat", AGREEMENT - 1)
    assert stability.words == ("the",)


@RULES
def test_an_unsure_word_stops_the_commit(rule: Rule) -> None:
    """A word that one hypothesis doubts is not committed yet, nor are the words after it."""
    stability = Stability(rule)
    doubt = words("one two three four five")
    doubt[1] = replace(doubt[1], sure=exp(rule.bound) - 0.01)
    stability.update(doubt, certain)
    hear(stability, "one two three four five", AGREEMENT - 1)
    assert stability.words == ("one",)
    hear(stability, "one two three four five", AGREEMENT - 1)
    assert stability.words == ("one", "two", "three", "four")


@RULES
def test_what_has_stood_for_long_may_be_less_sure(rule: Rule) -> None:
    """A doubtful word is committed after two seconds of interims, not after half a second."""
    doubt = [replace(word, sure=exp(rule.bound - 0.5)) for word in words("one two three")]
    stability = Stability(rule)
    for _ in range(4):
        stability.update(doubt, certain)
    assert stability.words == ()
    for _ in range(4):
        stability.update(doubt, certain)
    assert stability.words == ("one", "two")


@RULES
def test_a_word_that_may_go_on_stops_the_commit(rule: Rule) -> None:
    """A word is not committed while the decoder doubts the token after it."""
    text = words("it may be so now then")
    text[1] = replace(text[1], after=exp(rule.bound / AFTER) - 0.01)
    stability = Stability(rule)
    for _ in range(AGREEMENT):
        stability.update(text, certain)
    assert stability.words == ("it",)


def test_a_mark_comes_with_the_next_word() -> None:
    """A mark is committed with the next word only, so a comma that becomes a full stop takes nothing back."""
    stability = Stability(WITH_CTC)
    hear(stability, "well, yes", AGREEMENT)
    assert stability.words == ("well",) and stability.tokens == tuple(b"well")
    hear(stability, "well. Yes and", 1)
    assert stability.words == ("well",)
    hear(stability, "well. Yes and no", 1)
    assert stability.words == ("well", "Yes", "and") and stability.tokens == tuple(b"well.Yesand")
    assert stability.retracted(["Well,", "Yes,", "and", "no."]) == 1
    assert stability.retracted(["well.", "Yes,", "and?"]) == 0


def test_a_word_that_the_ctc_head_does_not_hear_stops_the_commit() -> None:
    """However sure the decoder is, a word that the CTC head does not find is not committed. One that it half finds may
    be."""
    stability = Stability(WITH_CTC)
    scores = [0.0, WITH_CTC.bound / WITH_CTC.ctc + 0.1, WITH_CTC.bound / WITH_CTC.ctc - 0.1, 0.0, 0.0]
    for _ in range(AGREEMENT):
        stability.update(words("one two three four five"), lambda: scores)
    assert stability.words == ("one", "two")


def test_a_text_that_cannot_be_aligned_commits_nothing() -> None:
    """The words of a text that cannot be aligned have no score, so none is committed."""
    stability = Stability(WITH_CTC)
    for pause in (False, False, True):
        stability.update(words("one two three four five"), lambda: [-inf] * 5, pause=pause)
    assert stability.words == ()


def test_doubts_add_up() -> None:
    """Small doubts about a word, the token after it and its CTC score would each pass alone, and together stop the
    commit."""
    third = WITH_CTC.bound / 2.5
    for sure, after, score, committed in (
        (third, 0.0, third / WITH_CTC.ctc, True),
        (0.0, third / AFTER, third / WITH_CTC.ctc, True),
        (third, third / AFTER, third / WITH_CTC.ctc, False),
    ):
        stability = Stability(WITH_CTC)
        text = words("one two three", exp(sure), exp(after))
        for _ in range(AGREEMENT):
            stability.update(text, lambda score=score: [score] * 3)
        assert bool(stability.words) == committed


def test_the_ctc_head_is_asked_once_and_only_where_it_decides() -> None:
    """The CTC head is not asked before enough hypotheses agree, nor about words that it could not save, nor by the
    other rule."""
    asked = list[int]()

    def scores() -> Sequence[float]:
        asked.append(1)
        return certain()

    stability = Stability(WITH_CTC)
    stability.update(words("one two three four"), unasked)
    for _ in range(AGREEMENT - 1):
        stability.update(words("one two three four"), scores)
    assert stability.words == ("one", "two", "three") and len(asked) == 1
    stability.update(words("one two three four"), unasked)
    for _ in range(AGREEMENT):
        stability.update(words("one two three four five", sure=0.1), unasked)

    stability = Stability(DECODER_ALONE)
    for _ in range(AGREEMENT):
        stability.update(words("one two three four"), unasked)
    assert stability.words == ("one", "two", "three")


def test_retracted_are_the_committed_words_that_the_final_lacks() -> None:
    """The count is right for words missing in the middle, at the end, or altogether."""
    stability = Stability(DECODER_ALONE)
    hear(stability, "a b c d e f", AGREEMENT)
    assert stability.words == ("a", "b", "c", "d", "e")
    assert stability.retracted(["a", "b", "c", "d", "e", "f"]) == 0
    assert stability.retracted(["a", "b", "x", "d", "e"]) == 1
    assert stability.retracted(["a", "b"]) == 3
    assert stability.retracted([]) == 5


@RULES
@given(tails=st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=9), st.booleans()), max_size=20))
def test_commits_only_grow(rule: Rule, tails: list[tuple[list[str], bool]]) -> None:
    """Hypotheses that continue what is committed never shorten or change it."""
    stability = Stability(rule)
    for tail, pause in tails:
        before = stability.words, stability.tokens
        stability.update(words(" ".join([*before[0], *tail])), certain, pause=pause)
        assert stability.words[: len(before[0])] == before[0]
        assert stability.tokens[: len(before[1])] == before[1]
        assert stability.tokens == tuple(t for w in stability.words for t in w.encode())


def test_a_word_of_nothing_but_marks_stays() -> None:
    for word, stem in (("so,", "so"), ("so", "so"), ("it's", "it's"), ("why?!", "why"), ("...", "...")):
        assert bare(word) == stem
    assert not set(MARKS) & set("'-%$&")


@given(st.lists(st.integers(8, 1500), max_size=20), st.sampled_from(["en", "zh", None]))
def test_every_token_of_a_text_belongs_to_a_word(tokens: list[int], language: str | None) -> None:
    """Committed words are the text's first tokens, even if one is only a space."""
    ranges = [(first, stop) for _, first, stop in PROMPT.words(tokens, language)]
    assert [first for first, _ in ranges] == [0, *(stop for _, stop in ranges)][: len(ranges)]
