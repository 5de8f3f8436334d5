"""A clip is trained on its own text, on what a teacher makes of it, or on none."""

import json
from pathlib import Path

import numpy as np
import pytest

from training.asr.labels import Labels, decided, spoken
from training.shards import Clip


def clip(text: str, file: str = "a.opus") -> Clip:
    return Clip(np.zeros(16000, np.int16), text, "s", "LibriSpeech", "librispeech", file)


@pytest.mark.parametrize(
    ("own", "taught", "sure", "text"),
    [
        ("He came, then.", "He came then?", -0.1, "He came, then."),
        ("HE CAME TO PARIS", "He came to Paris.", -3.0, "He came to Paris."),
        ("HE CAME TO PARIS", "Thank you for watching!", -0.1, None),
        ("TWENTY MEN CAME TO PARIS", "20 men came to Paris.", -0.1, "Twenty men came to Paris."),
        ("", "\u201cHe came \u2013 then.\u201d", -0.1, "He came, then."),
        ("", "He came then.", -0.6, None),
        ("", "20 men came.", -0.1, None),
        ("", "The Sea was calm.", -0.1, None),
        ("", "...", -0.1, None),
        ("", "[BLANK_AUDIO]", -0.1, None),
        ("", " Blank Audio.", -0.1, None),
        ("", "(upbeat music) He came.", -0.1, "He came."),
    ],
)
def test_what_a_teacher_may_say(own: str, taught: str, sure: float, text: str | None) -> None:
    """The teacher's words stand only where there are none, where it is sure, and where no test has them."""
    assert decided(clip(own), taught, sure, frozenset({"the sea was calm"})) == text


@pytest.mark.parametrize(
    ("text", "left"),
    [("The blank audio tape.", "The blank audio tape."), ("*coughs* Yes.", "Yes."), ("♪ la ♪", "la"), ("(laughs)", "")],
)
def test_sounds_that_are_no_words_leave_a_text(text: str, left: str) -> None:
    assert spoken(text) == left


def test_clips_get_their_labels_or_keep_their_own_text_as_a_sentence(tmp_path: Path) -> None:
    clips = [clip("ONE", "a"), clip("TWO", "b"), clip("", "c"), clip("", "d"), clip("FIVE MEN", "e")]
    rows = [{"file": "a", "text": "One."}, {"file": "b", "text": ""}, {"file": "c", "text": "Three."}]
    for name, part in (("first", rows[:1]), ("second", rows[1:])):
        (tmp_path / name).write_text("".join(json.dumps(row | {"cuts": [[7, 1]]}) + "\n" for row in part))
    labels = Labels.read([tmp_path / "first", tmp_path / "second"])
    found = [(c.file, c.text) for c in labels.lent(clips)]
    assert found == [("a", "One."), ("b", ""), ("c", "Three."), ("d", ""), ("e", "Five men.")]
    assert labels.cuts["c"] == [[7, 1]]
