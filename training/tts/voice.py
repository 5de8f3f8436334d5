"""The recorded voice: tars of Opus clips with index.jsonl -> shards, with phone labels from the synthetic voice's
rendering.
"""

import io
import json
import tarfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from audio.ogg import mend
from training.tts.align import transfer
from training.tts.config import FRAME, RATE
from training.tts.slt import PhoneFlite, utterance
from training.tts.speech import Utterance, join, levelled, trim
from training.tts.text import speakable

_A_SHARD = 100  # clips
_HELD_OUT_EVERY = 27  # of the different prompts, in alphabetical order
_CHARACTERS_A_FRAME = 2.2  # more than that: a take that was cut off, or another text

Piece = tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]


def read_index(tar: Path) -> list[tuple[dict[str, str], bytes]]:
    """Index rows of a tar with the bytes of their clips."""
    with tarfile.open(tar) as archive:
        members = {m.name.removeprefix("./"): m for m in archive.getmembers()}

        def content(name: str) -> bytes:
            file = archive.extractfile(members[name])
            assert file is not None
            return file.read()

        rows = [json.loads(line) for line in content("index.jsonl").splitlines()]
        return [(row, content(row["file"])) for row in rows]


def decode(data: bytes) -> NDArray[np.float32]:
    """Any file libsndfile reads -> mono at 24 kHz."""
    whole = mend(data) if data.startswith(b"OggS") else data
    samples, rate = soundfile.read(io.BytesIO(whole), dtype="float32", always_2d=True)
    mono = samples[:, 0]
    return mono if rate == RATE else soxr.resample(mono, rate, RATE)


_engine: PhoneFlite | None = None


def _start(root: Path, voice: str) -> None:
    global _engine  # one engine a process: the library keeps global state
    import torch

    torch.set_num_threads(1)
    _engine = PhoneFlite(root, voice)


def _piece(row: tuple[dict[str, str], bytes], held_out: set[str]) -> Piece | None:
    index, data = row
    text = speakable(index["text"])
    wave = decode(data)
    first, last = trim(wave)
    samples = levelled(wave[first:last])
    frames = len(samples) // FRAME
    if not text or frames < 4 or len(text) > _CHARACTERS_A_FRAME * frames:
        return None
    assert _engine is not None
    said, synthetic, labels = utterance(_engine, text, "", held_out=False)
    made = Utterance(text, index["speaker"], frames, said.phones, index["text"] in held_out)
    return made, samples, transfer(samples, synthetic, labels)


def held_out_prompts(index: Sequence[dict[str, str]]) -> set[str]:
    """Texts that are never trained on, out of all index rows of a voice."""
    return set(sorted({row["text"] for row in index})[::_HELD_OUT_EVERY])


def prepare(tars: Sequence[Path], root: Path, voice: str, out: Path, workers: int) -> tuple[int, float]:
    """Write the shards of all clips in `tars`; returns (clips, hours). All takes of every 27th prompt are held out."""
    rows = [row for tar in tars for row in read_index(tar)]
    held_out = held_out_prompts([index for index, _ in rows])
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (root, voice)) as pool:
        made = list(pool.map(partial(_piece, held_out=held_out), rows, chunksize=8))
    pieces = [piece for piece in made if piece is not None]
    for start in range(0, len(pieces), _A_SHARD):
        join(pieces[start : start + _A_SHARD]).save(out / f"voice-{start // _A_SHARD:03d}.npz")
    return len(pieces), sum(u.frames for u, _, _ in pieces) / 12.5 / 3600
