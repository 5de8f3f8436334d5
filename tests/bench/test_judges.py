"""The judges that come with the extra `eval`: sound quality against recordings, and an ear that is not ours.

Collected where they are installed (`make eval` and `make reference` install them).
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from bench import codec_quality, recordings, sphinx
from bench.material import Material
from bench.row import NotMeasured
from bench.spoken import RATE
from tests.bench.conftest import codes_file

GOLDEN = Path(__file__).parent.parent / "golden" / "speaking"


def test_codes_of_recordings_that_are_not_there_are_named(voice: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(GOLDEN, model)
    material = Material(voice, [], speaking=str(model))
    with pytest.raises(NotMeasured, match="held-out.npz"):
        codec_quality.codec_rows(material)
    codes_file(model / codec_quality.CODES, [np.zeros((30, 8), np.int16)])
    with pytest.raises(NotMeasured, match=r"0\.opus"):
        codec_quality.codec_rows(material)


def test_a_recording_is_like_itself_and_unlike_noise(voice: Path) -> None:
    clip = recordings.wave(recordings.held_out(Material(voice, [])).tests[0], 24_000)
    same = codec_quality.likeness(clip, clip, 24_000)
    noise = np.random.default_rng(0).normal(0, 0.1, len(clip)).astype(np.float32)
    other = codec_quality.likeness(clip, noise, 24_000)
    assert same[0] > 0.999 and same[1] > 4.5
    assert other[0] < 0.4 and other[1] < 1.5


def test_the_other_ear_hears_each_recording_by_itself(voice: Path) -> None:
    """In any order: what came before leaves nothing behind."""
    waves = [recordings.wave(clip, RATE) for clip in recordings.held_out(Material(voice, [])).tests]
    noise = np.random.default_rng(0).normal(0, 0.2, RATE).astype(np.float32)
    forward = sphinx.texts([noise, *waves])
    assert all(forward[1:])
    assert sphinx.texts([*waves[::-1], noise]) == forward[::-1]
