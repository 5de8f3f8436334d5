"""Transcripts, numbers as words, sentences for synthesis."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.asr.sentences import expand_titles, invented_name, random_sentence, templated, year
from training.transcript import spell, spell_ordinal, transcript


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I couldn\u2019t\u2014well, \u2018fine\u2019!", "i couldn't well fine"),
        ("R&B caf\u00e9", "r and b cafe"),
        ("twenty-one", "twenty one"),
        ("Room 12", ""),
    ],
)
def test_a_transcript_is_plain_words(text: str, words: str) -> None:
    assert transcript(text) == words


@given(st.text())
def test_no_text_leaves_the_alphabet(text: str) -> None:
    assert re.fullmatch(r"([a-z]('?[a-z]|'(?=[a-z']))*( |$))*", transcript(text)) is not None


@pytest.mark.parametrize(
    ("number", "cardinal"),
    [(0, "zero"), (13, "thirteen"), (40, "forty"), (99, "ninety nine"), (1204, "one thousand two hundred four")],
)
def test_numbers_are_spelled_as_they_are_read(number: int, cardinal: str) -> None:
    assert spell(number) == cardinal


@pytest.mark.parametrize(
    ("number", "ordinal"), [(1, "first"), (12, "twelfth"), (20, "twentieth"), (31, "thirty first")]
)
def test_ordinals(number: int, ordinal: str) -> None:
    assert spell_ordinal(number) == ordinal


def test_numbers_beyond_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match="1000000 is outside"):
        spell(1_000_000)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1967, "nineteen sixty seven"),
        (1900, "nineteen hundred"),
        (1905, "nineteen oh five"),
        (2004, "two thousand four"),
    ],
)
def test_years(number: int, said: str) -> None:
    assert year(number) == said


def test_titles_are_said_in_full() -> None:
    assert expand_titles("Mr. Brown met Mrs Hill, Dr. No.") == "Mister Brown met Missus Hill, Doctor No."


@given(st.integers(0, 10_000))
def test_every_sentence_can_be_a_transcript(seed: int) -> None:
    rng = random.Random(seed)
    assert "{" not in templated(rng)
    assert transcript(random_sentence(rng, ["He sat down, then.", "The sea was calm!"], seed))
    assert transcript(invented_name(rng)).isalpha()
