"""Codes of many utterances: those of one speaker come out as they went in."""

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.training.tts.shapes import random_codes
from training.tts.codes import concatenate


def test_one_speakers_utterances_are_picked() -> None:
    both = concatenate([random_codes(6), random_codes(4)])
    parts = {name: both.by(name) for name in ("slt", "kathleen")}
    for name, part in parts.items():
        own = [i for i, speaker in enumerate(both.speaker) if speaker == name]
        assert part.speaker == [name] * len(own) and part.text == [both.text[i] for i in own]
        assert part.held_out.tolist() == both.held_out[own].tolist()
        for at, i in enumerate(own):
            assert np.array_equal(part.of(at), both.of(i))
    assert sum(len(part.codes) for part in parts.values()) == len(both.codes)
    with pytest.raises(ValueError, match="no utterances of nobody"):
        both.by("nobody")
