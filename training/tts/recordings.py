"""Recordings of a tar: all as a shard, in which every so-many-th prompt is held out; and the codes of those held out,
by the codec's own encoder, which an evaluation decodes and compares.

The encoder is not shipped, so its codes are; bench/codec_quality.py reads them.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.shards import decode, entries
from training.tts.codec import Codec
from training.tts.config import FRAME, LABEL, RATE, UNKNOWN
from training.tts.speech import Speech, Utterance, join, levelled
from training.tts.text import speakable

_EVERY = 27


def held_texts(rows: Iterable[dict[str, str]], every: int) -> set[str]:
    """Every so-many-th prompt of a tar in alphabetical order: its takes are held out."""
    return set(sorted({row["text"] for row in rows})[::every])


def read_recordings(tar: Path, every: int = _EVERY) -> Speech:
    """All takes of a tar, none with phone labels."""
    rows = list(entries(tar))
    held = held_texts((row for row, _ in rows), every)
    pieces: list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]] = []
    for row, data in rows:
        wave = levelled(decode(data, RATE, "float32"))
        made = Utterance(speakable(row["text"]), row["speaker"], len(wave) // FRAME, row["text"] in held)
        pieces.append((made, wave, np.full(len(wave) // LABEL, UNKNOWN, np.uint8)))
    return join(pieces)


@torch.inference_mode()
def write_codes(codec: Codec, tars: Sequence[Path], out: Path, every: int = _EVERY) -> int:
    """files, starts (0), frames [n] and codes int16 [all frames, K] of the takes held out; returns how many."""
    names: list[str] = []
    codes: list[NDArray[np.int16]] = []
    for rows in (list(entries(tar)) for tar in tars):
        kept = held_texts((row for row, _ in rows), every)
        for name, data in ((row["file"], data) for row, data in rows if row["text"] in kept):
            wave = torch.from_numpy(levelled(decode(data, RATE, "float32"))).float() / 32768
            codes.append(codec.encode(wave[None, None])[0].T.numpy().astype(np.int16))
            assert len(codes[-1]) == len(wave) // FRAME
            names.append(name)
    frames = np.array([len(one) for one in codes])
    np.savez_compressed(
        out, files=np.array(names), starts=np.zeros(len(names), int), frames=frames, codes=np.concatenate(codes)
    )
    return len(names)
