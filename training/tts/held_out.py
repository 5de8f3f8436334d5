"""Codes of the held-out recordings of a voice, for measuring a shipped decoder: the encoder stays behind.

A file has: files [n] names in the voice's tar, starts int64 [n] first sample at the codec's rate, frames int64 [n], and
codes int16 [all frames, K].
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.tts.codec import Codec
from training.tts.config import FRAME
from training.tts.speech import levelled, trim
from training.tts.voice import decode, held_out_prompts, read_index


@torch.inference_mode()
def encode_held_out(codec: Codec, tars: Sequence[Path], speaker: str, path: Path) -> int:
    """Encode every held-out take of `speaker` in `tars` as preparation would cut and level it; returns their number."""
    rows = [row for tar in tars for row in read_index(tar)]
    prompts = held_out_prompts([index for index, _ in rows])
    files: list[str] = []
    starts: list[int] = []
    found: list[NDArray[np.int16]] = []
    for index, data in rows:
        if index["speaker"] != speaker or index["text"] not in prompts:
            continue
        wave = decode(data)
        first, last = trim(wave)
        samples = levelled(wave[first:last])
        codes = codec.encode(torch.from_numpy(samples.astype(np.float32) / 32768)[None, None])[0].T
        files.append(index["file"])
        starts.append(first)
        found.append(codes.to(torch.int16).numpy())
        assert len(samples) == len(codes) * FRAME
    if not files:
        raise ValueError(f"held-out: no recordings of {speaker} in {', '.join(map(str, tars))}")
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, files=np.array(files), starts=np.array(starts, np.int64), codes=np.concatenate(found),
        frames=np.array([len(c) for c in found], np.int64),
    )  # fmt: skip
    return len(files)
