"""Transcripts that lack case and punctuation are lent them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.asr.labels import cased, restore
from training.transcript import transcript

_WORDS = st.lists(st.sampled_from("i a b don't the sea was calm u s".split()), max_size=8).map(" ".join)
_TAUGHT = st.text(st.sampled_from("iabI theTHEseacalm.,?!:;'-\u2014&%$5 "), max_size=40)


@pytest.mark.parametrize(
    ("reference", "taught", "text"),
    [
        ("DOCTOR BROWN SAID NO", "Doctor Brown said: no!", "Doctor Brown said, no!"),
        ("i think so do you", "I think so. Do you?", "I think so. Do you?"),
        ("the sea was calm", "She was called Anna.", "The sea was calm."),
        ("we met in may then", "We met in May, 1999.", "We met in May, then."),
        ("well known and i'm here,", "Well-known, and I\u2019m here", "Well known, and I'm here."),
        ("hello", "", "Hello."),
        ("", "Hello.", ""),
    ],
)
def test_a_teacher_lends_capitals_and_marks(reference: str, taught: str, text: str) -> None:
    assert restore(reference, taught) == text


@given(_WORDS | st.text(), _TAUGHT | st.text())
def test_every_word_of_the_reference_stays_in_its_place(reference: str, taught: str) -> None:
    assert transcript(restore(reference, taught)) == transcript(reference)


@given(_WORDS)
def test_the_reference_itself_is_a_teacher(reference: str) -> None:
    once = restore(reference, reference)
    assert restore(reference, once) == once


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("He sat down.", True), ("HE SAT DOWN.", False), ("he sat down.", False), ("He sat down", False), ("", False)],
)
def test_text_that_people_wrote_needs_no_teacher(text: str, wanted: bool) -> None:
    assert cased(text) == wanted
