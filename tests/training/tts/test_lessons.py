"""Codes for a new encoder: what does not fit the codec is named before anything is trained."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

from tests.training.tts.shapes import CONFIG, random_codes
from training.tts.codec_run import CodecRun, CodecTrainer, Part
from training.tts.lessons import load_lessons

FRAMES = CONFIG.codec_training.frames


def saved(path: Path, codes: NDArray[np.generic]) -> Path:
    """A codes.npz of one utterance with these codes."""
    np.savez(
        path, codes=codes, lengths=np.array([len(codes)]), held_out=np.array([False]), text=np.array("a"),
        speaker=np.array("slt"),
    )  # fmt: skip
    return path


def test_codes_of_the_codec_are_read_as_they_are(tmp_path: Path) -> None:
    codes = random_codes()
    codes.save(tmp_path / "codes.npz")
    assert np.array_equal(load_lessons(tmp_path / "codes.npz", CONFIG.codec, FRAMES), codes.codes)
    least = np.array([[0, 31, 0]] * FRAMES, np.int16)
    assert len(load_lessons(saved(tmp_path / "least.npz", least), CONFIG.codec, FRAMES)) == FRAMES


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((FRAMES, 2), np.int16), r"codes of 2 books, must be codec\.num_quantizers = 3$"),
        (np.zeros((FRAMES, 4), np.int16), r"codes of 4 books, must be codec\.num_quantizers = 3$"),
        (np.zeros((FRAMES - 1, 3), np.int16), r"11 frames, must be at least codec_training\.frames = 12$"),
        (np.zeros((0, 3), np.int16), r"0 frames, must be at least codec_training\.frames = 12$"),
        (
            np.array([[0, 32, 5]] * FRAMES, np.int16),
            r"entries 0\.\.32, must lie in 0\.\.31 \(codec\.codebook_size = 32",
        ),
        (
            np.array([[-1, 3, 5]] * FRAMES, np.int16),
            r"entries -1\.\.5, must lie in 0\.\.31 \(codec\.codebook_size = 32",
        ),
        (np.zeros((FRAMES, 3), np.float32), r"codes are float32 \[12, 3\], must be int16 \[frames, books\]$"),
        (np.zeros(FRAMES, np.int16), r"codes are int16 \[12\], must be int16 \[frames, books\]$"),
    ],
)
def test_what_does_not_fit_is_named_with_its_limit(tmp_path: Path, codes: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^codec --codes: .*codes\.npz: {message}"):
        load_lessons(saved(tmp_path / "codes.npz", codes), CONFIG.codec, FRAMES)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut short"])
def test_what_is_no_codes_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "codes.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"^codec --codes: .*codes\.npz: no codes\.npz as spoken and encode make it"):
        load_lessons(tmp_path / "codes.npz", CONFIG.codec, FRAMES)
    with (tmp_path / "codes.npz").open("wb") as file:
        np.save(file, np.zeros((FRAMES, 3), np.int16))
    with pytest.raises(ValueError, match=r"no codes\.npz as spoken and encode make it"):
        load_lessons(tmp_path / "codes.npz", CONFIG.codec, FRAMES)
    np.savez(tmp_path / "codes.npz", wave=np.zeros(3))
    with pytest.raises(ValueError, match=r"no codes\.npz as spoken and encode make it"):
        load_lessons(tmp_path / "codes.npz", CONFIG.codec, FRAMES)


def test_a_run_says_so_before_it_reads_anything_else(tmp_path: Path) -> None:
    """Neither the folder of speech nor the codec to begin from is there, and no folder is made."""
    run = CodecRun((tmp_path / "speech",), tmp_path / "out", 1.0, start=tmp_path / "none", part=Part.ENCODER)
    with pytest.raises(ValueError, match=r"^codec --codes: .*spoken\.npz: no such file$"):
        CodecTrainer(CONFIG, replace(run, codes=tmp_path / "spoken.npz", device="cpu"))
    with pytest.raises(ValueError, match=r"^codec --codes: .* not --part codes$"):
        CodecTrainer(CONFIG, replace(run, codes=tmp_path / "spoken.npz", part=Part.CODES, device="cpu"))
    assert not (tmp_path / "out").exists()
