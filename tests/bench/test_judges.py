"""What comes with the extra `eval`: sound quality against recordings, an ear that is not ours, and the curve drawn.

Collected where they are installed (`make eval` and `make reference` install them).
"""

import json
import math
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bench import codec_quality, peers, recordings
from bench.ear import no_progress
from bench.material import Material
from bench.naturalness import natural_row, opinions
from bench.row import NotMeasured, Row
from bench.sentences import Sentence
from bench.speaking import judge_rows
from bench.spoken import RATE, Spoken
from bench.turns import Look, Looks
from bench.wer import rate, read
from engines import manifest as manifests
from streaming.turn import spoken
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


def test_the_encoder_s_own_codes_are_what_is_judged(voice: Path, tmp_path: Path) -> None:
    """Searched ones beside them change nothing; naturalness has a row, measured or not."""
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

    alone, other, both = rows(codes=first), rows(codes=second), rows(codes=second, encoded=first)
    assert len(alone) == 3 and "naturalness" in alone[2].name and alone[2].status == "open"
    assert alone[0].details["stoi_pesq"] == both[0].details["stoi_pesq"] != other[0].details["stoi_pesq"]
    assert [row.goal for row in alone[:2]] == ["≥ 0.95", "≥ 2.7"]


def test_a_recording_is_like_itself_and_unlike_noise(voice: Path) -> None:
    clip = recordings.wave(recordings.held_out(Material(voice, [])).tests[0], RATE)
    same = codec_quality.likeness(clip, clip)
    noise = np.random.default_rng(0).normal(0, 0.1, len(clip)).astype(np.float32)
    other = codec_quality.likeness(clip, noise)
    assert same[0] > 0.999 and same[1] > 4.5
    assert other[0] < 0.4 and other[1] < 1.5


if find_spec("distillmos"):  # the extra `natural`

    def test_people_sound_natural_and_noise_does_not(voice: Path) -> None:
        waves = [recordings.wave(clip, RATE) for clip in recordings.held_out(Material(voice, [])).tests]
        noise = np.random.default_rng(0).normal(0, 0.1, 2 * RATE).astype(np.float32)
        row = natural_row([noise], waves, [noise], "nobody", no_progress)
        people, _ = opinions(waves, no_progress)
        assert people > row.details["natural"] + 0.5 and not row.met


def test_the_other_ear_hears_each_recording_by_itself(voice: Path) -> None:
    """In any order: what came before leaves nothing behind."""
    waves = [recordings.wave(clip, RATE) for clip in recordings.held_out(Material(voice, [])).tests]
    noise = np.random.default_rng(0).normal(0, 0.2, RATE).astype(np.float32)
    one = peers.PEERS["pocketsphinx"]
    forward = [heard.text for heard in peers.hear(one, [noise, *waves])]
    assert all(forward[1:])
    assert [heard.text for heard in peers.hear(one, [*waves[::-1], noise])] == forward[::-1]


@pytest.mark.parametrize("name", [name for name, peer in peers.PEERS.items() if not peer.missing()])
def test_each_that_is_here_hears_most_words(voice: Path, name: str) -> None:
    one = peers.PEERS[name]
    clips = recordings.held_out(Material(voice, [])).tests
    heard = peers.hear(one, [recordings.wave(clip, RATE) for clip in clips])
    errors = rate((" ".join(read(c.text)), " ".join(read(h.text))) for c, h in zip(clips, heard, strict=True))
    assert errors < 0.5 and all(h.processor > 0 for h in heard)


def test_what_is_said_is_judged_against_recordings(voice: Path) -> None:
    """Recordings of the test split instead of sentences: the judge finds them as good as themselves, and better than
    another's of which one is silent."""
    tests = recordings.held_out(Material(voice, [])).tests
    waves = [recordings.wave(clip, RATE) for clip in tests]
    spoken = [Spoken(Sentence(c.text, "everyday"), c.text, w, ()) for c, w in zip(tests, waves, strict=True)]
    material = Material(voice, [], peers=["pocketsphinx"], beside=voice / "another")
    other = {1: waves[1], 2: np.zeros(RATE, np.float32)}
    row, beside = judge_rows(material, spoken, recordings.HeldOut(tests, []), [*waves, *waves], other)
    assert row.details["said"] == row.details["recorded"] > 0 and row.met
    assert "pocketsphinx" in row.name and "3 sentences, 3 recordings" in row.name
    assert (
        beside.details["said"] < beside.details["recorded"]
        and beside.met
        and "2 sentences beside another" in beside.name
    )


def test_the_curve_is_drawn_of_what_the_rows_hold(tmp_path: Path) -> None:
    """From the file that the evaluation writes; a picture needs matplotlib."""
    looks = Looks(60.0, [Look(0.5, spoken(["Yes."], 0.9), 0.5, "Yes."), Look(math.inf, None)])
    (tmp_path / "rows.json").write_text(json.dumps([{"row": "a"}, {"looks": {"thinking": asdict(looks)}}]))
    done = subprocess.run([sys.executable, "-m", "bench.turns", "rows.json", "curve.png"], cwd=tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
