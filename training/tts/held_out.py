"""Codes of recordings that nothing was trained on, by the codec's own encoder: what an evaluation decodes and compares.

The encoder is not shipped, so its codes are; bench/codec_quality.py reads them.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.shards import decode, entries
from training.tts.codec import Codec
from training.tts.config import FRAME, RATE
from training.tts.speech import levelled


@torch.inference_mode()
def write_codes(codec: Codec, tars: Sequence[Path], every: int, out: Path) -> int:
    """files, starts (0), frames [n] and codes int16 [all frames, K] of the recordings, all takes of every so-many-th
    prompt of a tar in alphabetical order; returns how many."""
    names: list[str] = []
    codes: list[NDArray[np.int16]] = []
    for rows in (list(entries(tar)) for tar in tars):
        kept = set(sorted({row["text"] for row, _ in rows})[::every])
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
