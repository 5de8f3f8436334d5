"""Slips count where both ears agree, and only there."""

from hypothesis import given
from hypothesis import strategies as st

from bench.slips import slips
from bench.wer import alignment, distance, normalize

WORDS = st.lists(st.sampled_from("the cat ran across a narrow bridge yesterday and then back".split()), max_size=9)
SAID = "the driver stopped to let the ducks cross the road"


def test_two_words_that_both_ears_miss_are_skipped() -> None:
    heard = "the driver stopped to let cross the road"
    found = slips(SAID, heard, heard)
    assert found.skipped == (5, 6) and not found.added
    assert found.told(SAID) == "skipped: the ducks"


def test_one_long_word_counts_and_one_short_word_does_not() -> None:
    without_long = SAID.replace("stopped ", "")
    assert slips(SAID, without_long, without_long).skipped == (2,)
    without_short = SAID.replace("to ", "")
    assert not slips(SAID, without_short, without_short)


def test_ears_may_disagree_by_a_word_about_what_is_missing() -> None:
    """Which "the" is left is not told by the text: one ear seems to lack "the ducks", the other "ducks the"."""
    assert slips(SAID, SAID.replace("the ducks ", ""), SAID.replace("ducks cross ", "")).skipped


def test_what_one_ear_misses_is_that_ear_s_mistake() -> None:
    assert not slips(SAID, SAID.replace("to let the ducks ", ""), SAID)
    assert not slips(SAID, SAID.replace("the ducks", "ducks"), SAID.replace("the road", "the road the road"))


def test_words_said_twice_are_added() -> None:
    twice = SAID.replace("the ducks", "the ducks the ducks")
    found = slips(SAID, twice, twice)
    assert found.added and not found.skipped
    stutter = SAID.replace("ducks", "ducks ducks")
    assert slips(SAID, stutter, stutter).added


def test_a_long_word_in_pieces_is_no_addition() -> None:
    said = "how many letters did fatima bring"
    assert not slips(said, said.replace("fatima", "for team a"), said.replace("fatima", "fat team her"))
    again = said.replace("fatima", "fatima did fatima")
    assert slips(said, again, again).added


def test_words_after_the_end_are_added() -> None:
    longer = SAID + " and more"
    assert slips(SAID, longer, longer).told(SAID) == "added before: the end"


@given(WORDS, WORDS, WORDS)
def test_right_speech_has_no_slips_and_one_right_ear_acquits(said: list[str], one: list[str], other: list[str]) -> None:
    text = " ".join(said)
    assert not slips(text, text, text)
    assert not slips(text, text, " ".join(other))
    assert not slips(text, " ".join(one), text)


@given(WORDS, WORDS)
def test_alignment_is_a_cheapest_way(a: list[str], b: list[str]) -> None:
    """Every place of both stands in it once, in order; what does not match is the distance."""
    pairs = alignment(a, b)
    assert [i for i, _ in pairs if i is not None] == list(range(len(a)))
    assert [j for _, j in pairs if j is not None] == list(range(len(b)))
    costs = sum(i is None or j is None or a[i] != b[j] for i, j in pairs)
    assert costs == distance(normalize(" ".join(a)), normalize(" ".join(b)))
