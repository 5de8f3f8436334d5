"""What the speaking model reads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.tts.text import speakable

SPOKEN = re.compile(r" [a-z][a-z' ,.?!;:]*[.?!]")


@given(st.text())
def test_text_is_written_in_the_models_characters_or_refused(text: str) -> None:
    """Whatever comes in: a leading space, known characters, an end mark."""
    said = speakable(text)
    assert said == "" or (SPOKEN.fullmatch(said) and "  " not in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Hello, World", " hello, world."),
        ("“Don’t!” she said", " don't! she said."),
        ("Mr. Brown — no less — etc.", " mister brown, no less, et cetera."),
        ("well-known; 50% of it", ""),
        ("café & bar", " cafe and bar."),
        ("...", ""),
        ("'tis what?!", " tis what!"),
    ],
)
def test_examples(text: str, said: str) -> None:
    assert speakable(text) == said
