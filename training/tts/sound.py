"""What codes sound like, at the rate at which a hearing model listens: on a processor by a shipped model's graph, on
a GPU by the decoder that the graph was made of, many utterances at a time.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from engines.manifest import read_tts
from engines.onnx import Graph
from training.shards import RATE
from training.tts.codec import load_codec
from training.tts.config import FRAME

_FRAMES_A_BATCH = 6400
_UP, _DOWN = 2, 3  # from 24 to 16 kHz
_REACH = 32  # samples of 24 kHz on both sides that a sample of 16 kHz is made of
_PASS = 0.94  # of the band that 16 kHz can hold


class Sound(Protocol):
    """Codes int16 [frames, K] of some utterances -> their samples, int16 at 16 kHz."""

    def __call__(self, codes: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]: ...


class Shipped:
    """By the decoder of a shipped model: on a processor much faster than the one it was made of."""

    def __init__(self, model: Path, threads: int = 1) -> None:
        """model: directory of a speaking model. Raises ManifestError: there is none."""
        self._spec = read_tts(model).codec
        self._graph = Graph(model / self._spec.file, threads=threads, provider="cpu")
        self._wave = self._graph.outputs.index(self._spec.wave)

    def __call__(self, codes: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]:
        """Samples of codes. One utterance a call of the graph is as fast as several."""
        return [self._one(some) for some in codes]

    def _one(self, codes: NDArray[np.int16]) -> NDArray[np.int16]:
        spec = self._spec
        feeds = {state.input: np.zeros((1, *state.shape), np.float32) for state in spec.states}
        ending = {spec.last: np.ones(1, np.float32)} if spec.last else {}
        wave = self._graph.run({spec.codes: codes[None].astype(np.int64)} | feeds | ending)[self._wave].reshape(-1)
        heard = soxr.resample(wave[: len(codes) * spec.frame_samples], spec.sample_rate, RATE)
        return (heard.clip(-1, 1) * 32767).astype(np.int16)


class Decoded:
    """By the decoder of a codec.safetensors, on `device`."""

    def __init__(self, codec: Path, device: torch.device) -> None:
        self._decoder = load_codec(codec, encoder=False).decoder.to(device).eval()
        self._device = device

    @torch.inference_mode()
    def __call__(self, codes: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]:
        """Samples of codes. The decoder is causal: what a shorter row is filled up with is not heard in it."""
        out: list[NDArray[np.int16]] = [np.zeros(0, np.int16)] * len(codes)
        order = sorted(range(len(codes)), key=lambda i: len(codes[i]))
        while order:
            longest = len(codes[order[-1]])
            some = [order.pop() for _ in range(min(len(order), max(1, _FRAMES_A_BATCH // max(longest, 1))))]
            rows = torch.zeros(len(some), codes[some[0]].shape[1], longest, dtype=torch.long)
            for row, i in zip(rows, some, strict=True):
                row[:, : len(codes[i])] = torch.from_numpy(codes[i].T.astype(np.int64))
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
                wave = self._decoder(rows.to(self._device))
            counts = [len(codes[i]) * FRAME for i in some]
            heard = (at_16k(wave.float(), counts) * 32767).to(torch.int16).cpu().numpy()
            for row, i, n in zip(heard, some, counts, strict=True):
                out[i] = row[: n * _UP // _DOWN].copy()
        return out


@lru_cache
def _kernel(device: torch.device) -> Tensor:
    """Windowed sines over their argument, a row for each of the `_UP` places between samples: [_UP, 1, taps]."""
    at = torch.arange(-_REACH, _REACH + _DOWN, dtype=torch.float64)
    rows = []
    for place in range(_UP):
        x = (at - place * _DOWN / _UP) * _PASS * _UP / _DOWN
        rows.append(torch.sinc(x) * torch.cos(torch.pi * x / (2 * x.abs().max())) ** 2)
    kernel = torch.stack(rows)[:, None]
    return (kernel / kernel.sum(-1, keepdim=True)).float().to(device)


def at_16k(wave: Tensor, counts: Sequence[int]) -> Tensor:
    """Waves [B, 1, S] at 24 kHz, silent from their `counts` on -> [B, S * 2 / 3] at 16 kHz in [-1, 1]."""
    beyond = torch.arange(wave.shape[-1], device=wave.device) >= torch.tensor(counts, device=wave.device)[:, None]
    wave = F.pad(wave.masked_fill(beyond[:, None], 0.0), (_REACH, _REACH + _DOWN - 1))
    places = F.conv1d(wave, _kernel(wave.device), stride=_DOWN)
    return places.transpose(1, 2).flatten(1)[:, : (wave.shape[-1] - 2 * _REACH - _DOWN + 1) * _UP // _DOWN].clamp(-1, 1)
