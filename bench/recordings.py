"""Recordings of the voice that the speaking model imitates, held out from its training."""

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import soxr

from bench.clips import Clip, read_shard
from bench.material import Material

Floats = npt.NDArray[np.float32]
_soxr: Any = soxr  # soxr's types are incomplete.

VOICE: Final = "kathleen"
EVERY: Final = 27
"""Every so-many-th of the voice's prompts, in alphabetical order, is held out with all its takes, as when the model was
made."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Recordings of the voice.

    Attributes:
        tests: from the test split: no model of ours was trained on them.
        takes: from the voice's own shard: the speaking model was not trained on them.
    """

    tests: list[Clip]
    takes: list[Clip]


def held_out(material: Material) -> HeldOut:
    """All held-out recordings, mended; both lists are empty where the data directory lacks them."""
    tests = [clip for path in sorted((material.data / "speech").glob("*-test-*.tar")) for clip in read_shard(path)]
    takes = [clip for path in sorted((material.data / "speech").glob("*-voice-*.tar")) for clip in read_shard(path)]
    prompts = set(sorted({clip.text for clip in takes})[::EVERY])
    return HeldOut(
        [clip.mended() for clip in tests if clip.speaker == VOICE],
        [clip.mended() for clip in takes if clip.text in prompts],
    )


def wave(clip: Clip, rate: int) -> Floats:
    """A clip's samples, float32 mono [n] at ``rate``."""
    import soundfile

    with soundfile.SoundFile(io.BytesIO(clip.audio)) as file:
        samples: Any = file.read(dtype="float32", always_2d=True)[:, 0]
        source = int(file.samplerate)
    return np.asarray(samples if source == rate else _soxr.resample(samples, source, rate), dtype=np.float32)
