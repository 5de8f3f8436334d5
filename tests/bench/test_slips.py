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


def test_a_word_written_as_two_is_the_same_word() -> None:
    """Joined or apart, by the text or by an ear; what is next to it still counts, and half of it is not all of it."""
    apart, joined = "my sister keeps rabbits in the back yard", "my sister keeps rabbits in the backyard"
    for said, heard in ((apart, joined), (joined, apart)):
        assert not slips(said, heard, heard)
        missing = heard.replace("rabbits ", "")
        assert slips(said, missing, missing).told(said) == "skipped: rabbits"
        twice = heard.replace("the ", "the rabbits in the ")
        assert slips(said, twice, twice).added
        again = f"{heard} {heard.removeprefix('my sister keeps rabbits in the ')}"
        assert slips(said, again, again).added == (len(normalize(said)),)
        none = heard[: heard.index(" back")]
        assert slips(said, none, none).skipped == ((6, 7) if said == apart else (6,))
    half = apart.removesuffix(" yard")
    assert slips(apart, half, half).skipped == (7,)


def test_places_are_those_of_the_text_whatever_an_ear_joins() -> None:
    """One ear joins two words before what is missing, the other does not: both mean the same place."""
    said = "some one left the back yard of the big garden yesterday"
    one, other = said.replace("big garden ", ""), "someone left the backyard of the yesterday"
    assert slips(said, one, other).told(said) == "skipped: big garden"


def test_numbers_count_as_they_are_said() -> None:
    """An ear may write digits; a number that is not there, or is there twice, still counts."""
    said = "we counted twenty three lamps and twelve boxes"
    digits = "We counted 23 lamps and 12 boxes."
    assert not slips(said, digits, digits)
    assert slips(said, "we counted lamps and 12 boxes", "we counted lamps and twelve boxes").told(said) == (
        "skipped: twenty three"
    )
    twice = "we counted 23 23 lamps and 12 boxes"
    assert slips(said, twice, twice).added


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
