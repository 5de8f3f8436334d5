"""Transcripts, written text and invented names."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.speech.slots import invented_name
from training.transcript import transcript, written


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


_SIGNS = st.text(st.sampled_from("abA0 .,?!:;'\"-\u2013\u2014\u2026%$£&+/@()*_\u00e9\u2019"), max_size=20)


@given(_SIGNS | st.text())
def test_written_text_stays_and_has_one_mark_at_a_time(text: str) -> None:
    found = written(text)
    assert written(found) == found
    assert re.fullmatch(r"[A-Za-z0-9.,?!'%$£€:&+/@ -]*", found)
    assert re.search(r"[.,?!:]\s*[.,?!:]", found) is None


@given(st.integers(0, 10_000))
def test_an_invented_name_is_one_word(seed: int) -> None:
    assert transcript(invented_name(random.Random(seed))).isalpha()
