"""Transcripts, written text, numbers as words, sentences."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.asr.sentences import expand_titles, invented_name, templated, year
from training.transcript import spell, spell_ordinal, transcript, written


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
    ("text", "found"),
    [
        ("\u201cI couldn\u2019t\u2014well, \u2018fine\u2019!\u201d he said;", "I couldn't, well, fine! he said,"),
        ("Room 12 (Caf\u00e9) costs $5.50 ...", "Room 12 Cafe costs $5.50."),
        ("Really ?! Well-known , R&B -- at 8:30 :", "Really? Well-known, R&B, at 8:30,"),
        ("*", ""),
    ],
)
def test_written_text_has_capitals_digits_and_marks(text: str, found: str) -> None:
    assert written(text) == found


_SIGNS = st.text(st.sampled_from("abA0 .,?!:;'\"-\u2013\u2014\u2026%$&+/@()*_\u00e9\u2019"), max_size=20)


@given(_SIGNS | st.text())
def test_written_text_stays_and_has_one_mark_at_a_time(text: str) -> None:
    found = written(text)
    assert written(found) == found
    assert re.fullmatch(r"[A-Za-z0-9.,?!'%$:&+/@ -]*", found)
    assert re.search(r"[.,?!:]\s*[.,?!:]", found) is None


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
    assert transcript(templated(rng))
    assert transcript(invented_name(rng)).isalpha()
