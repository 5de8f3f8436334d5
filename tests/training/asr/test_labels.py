"""Which text a clip is trained on: its own, what a teacher makes of it, or none."""

import json
from pathlib import Path

import numpy as np
import pytest

from training.asr.labels import decided, relabelled
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
    ],
)
def test_what_a_teacher_may_say(own: str, taught: str, sure: float, text: str | None) -> None:
    """Its words stand only where there are none, it is sure, and no test has them."""
    assert decided(clip(own), taught, sure, frozenset({"the sea was calm"})) == text


def test_clips_get_their_labels_and_those_without_a_text_are_left_out(tmp_path: Path) -> None:
    clips = [clip("ONE", "a"), clip("TWO", "b"), clip("", "c"), clip("", "d"), clip("FIVE", "e")]
    rows = [{"file": "a", "text": "One."}, {"file": "b", "text": ""}, {"file": "c", "text": "Three."}]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = relabelled(clips, tmp_path / "labels.jsonl")
    assert [(c.file, c.text) for c in found] == [("a", "One."), ("c", "Three."), ("e", "FIVE")]
    assert [c.text for c in relabelled(clips, None)] == ["ONE", "TWO", "FIVE"]
