"""Codes of recordings that nothing was trained on, by the codec's own encoder: what an evaluation decodes and compares.

The encoder is not shipped, so its codes are; bench/codec_quality.py reads them.
"""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch
from numpy.typing import NDArray

from audio.ogg import mend
from training.tts.codec import Codec
from training.tts.config import FRAME, RATE
from training.tts.speech import levelled


def read_tar(tar: Path, every: int) -> list[tuple[str, bytes]]:
    """(name, encoded recording) of all takes of every so-many-th prompt, in alphabetical order, of a tar with an
    index.jsonl."""
    with tarfile.open(tar) as archive:
        members = {m.name.removeprefix("./"): m for m in archive.getmembers()}

        def content(name: str) -> bytes:
            file = archive.extractfile(members[name])
            assert file is not None
            return file.read()

        rows = [json.loads(line) for line in content("index.jsonl").splitlines()]
        kept = set(sorted({row["text"] for row in rows})[::every])
        return [(row["file"], content(row["file"])) for row in rows if row["text"] in kept]


def decoded(data: bytes) -> NDArray[np.float32]:
    """Any file libsndfile reads -> mono at 24 kHz."""
    samples, rate = soundfile.read(
        io.BytesIO(mend(data) if data.startswith(b"OggS") else data), dtype="float32", always_2d=True
    )
    mono = samples[:, 0]
    return mono if rate == RATE else soxr.resample(mono, rate, RATE)


@torch.inference_mode()
def write_codes(codec: Codec, tars: Sequence[Path], every: int, out: Path) -> int:
    """files, starts (0), frames [n] and codes int16 [all frames, K] of the recordings; returns how many."""
    names: list[str] = []
    codes: list[NDArray[np.int16]] = []
    for name, data in (clip for tar in tars for clip in read_tar(tar, every)):
        wave = torch.from_numpy(levelled(decoded(data))).float() / 32768
        codes.append(codec.encode(wave[None, None])[0].T.numpy().astype(np.int16))
        assert len(codes[-1]) == len(wave) // FRAME
        names.append(name)
    frames = np.array([len(one) for one in codes])
    np.savez_compressed(
        out, files=np.array(names), starts=np.zeros(len(names), int), frames=frames, codes=np.concatenate(codes)
    )
    return len(names)
