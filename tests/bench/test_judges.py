"""The judges that come with the extra `eval`: sound quality against recordings, and an ear that is not ours.

Collected where they are installed (`make eval` and `make reference` install them).
"""

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bench import codec_quality, recordings, sphinx
from bench.material import Material
from bench.row import NotMeasured, Row
from bench.spoken import RATE
from engines import manifest as manifests
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


def test_searched_codes_are_named_and_the_encoder_s_own_stand_beside_them(voice: Path, tmp_path: Path) -> None:
    """A file without `encoded` has the two rows with goals, of codes as encoded."""
    model = tmp_path / "model"
    shutil.copytree(GOLDEN, model)
    clips = recordings.held_out(Material(voice, [])).takes
    spec = manifests.read_tts(model).codec
    chance = np.random.default_rng(1)
    first, second = (chance.integers(0, spec.entries, (2 * 20, spec.codebooks)).astype(np.int16) for _ in range(2))
    same = {"files": [clip.file for clip in clips], "starts": [0, 100], "frames": [20, 20]}

    def rows(**codes: npt.NDArray[np.int16]) -> list[Row]:
        np.savez(model / codec_quality.CODES, **{name: np.array(value) for name, value in same.items()}, **codes)
        return codec_quality.codec_rows(Material(voice, [], speaking=str(model)))

    alone, other = rows(codes=first), rows(codes=second)
    both = rows(codes=second, encoded=first)
    assert [row.name.rpartition(", ")[2] for row in alone] == ["codes as encoded)", "PESQ wide band (codes as encoded)"]
    assert not alone[0].notes and "follow STOI and PESQ" in both[0].notes[0]
    assert [row.name.rpartition(", ")[2] for row in both[:2]] == ["codes searched)", "PESQ wide band (codes searched)"]
    assert [(row.reached, row.goal, row.status) for row in both[:2]] == [
        (row.reached, row.goal, row.status) for row in other
    ]
    assert both[2].reached == f"{alone[0].reached} / {alone[1].reached}" and both[2].status == "–"
    assert "network encoder" in both[2].name
    assert both[0].details["stoi_pesq"] == other[0].details["stoi_pesq"] != alone[0].details["stoi_pesq"]
    assert both[2].details["stoi_pesq"] == alone[0].details["stoi_pesq"]
    with pytest.raises(NotMeasured, match=r"encoded is \[10, .*must be \[40, "):
        rows(codes=second, encoded=first[:10])


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
