"""Utterances as codes: what the talker learns from. One file holds all utterances that a codec has encoded."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from training.tts.codec import Codec
from training.tts.config import FRAME
from training.tts.graph import autocast
from training.tts.speech import Utterance, load_shard

_BATCH_SECONDS = 800


@dataclass(frozen=True)
class Codes:
    """codes int16 [frames, K] of all utterances in a row; lengths, held_out [n]; text, speaker [n]."""

    codes: NDArray[np.int16]
    lengths: NDArray[np.int64]
    text: list[str]
    speaker: list[str]
    held_out: NDArray[np.bool_]

    def of(self, i: int) -> NDArray[np.int16]:
        """Codes int16 [frames, K] of utterance i."""
        return self.codes[self._ends[i] - self.lengths[i] : self._ends[i]]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.lengths)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        np.savez(
            temporary, codes=self.codes, lengths=self.lengths, held_out=self.held_out,
            text=np.array("\n".join(self.text)), speaker=np.array("\n".join(self.speaker)),
        )  # fmt: skip
        temporary.rename(path)


def load_codes(path: Path) -> Codes:
    with path.open("rb") as file, np.load(file) as z:  # np.load leaves a broken one open
        text, speaker = str(z["text"]).split("\n"), str(z["speaker"]).split("\n")
        return Codes(z["codes"], z["lengths"], text, speaker, z["held_out"])


def concatenate(parts: list[Codes]) -> Codes:
    return Codes(
        np.concatenate([p.codes for p in parts]), np.concatenate([p.lengths for p in parts]),
        [t for p in parts for t in p.text], [s for p in parts for s in p.speaker],
        np.concatenate([p.held_out for p in parts]),
    )  # fmt: skip


@torch.no_grad()
def encode(codec: Codec, paths: list[Path], device: torch.device) -> Codes:
    """Codes of every utterance in the shards `paths`, in their order. Rows of about one length are encoded together;
    the encoder sees silence after a shorter one, as it does at the end of any utterance.
    """
    codec.to(device).eval()
    rows: list[tuple[Utterance, NDArray[np.int16]]] = []
    for shard in map(load_shard, paths):
        order = sorted(enumerate(shard.pieces()), key=lambda piece: piece[1][0].frames)
        found: dict[int, tuple[Utterance, NDArray[np.int16]]] = {}
        at = 0
        while at < len(order):
            longest, count = order[at][1][0].frames, 1
            while at + count < len(order) and (count + 1) * order[at + count][1][0].frames <= _BATCH_SECONDS * 12.5:
                longest = order[at + count][1][0].frames
                count += 1
            group = order[at : at + count]
            wave = np.zeros((count, longest * FRAME), np.int16)
            for row, (_, (_, samples, _)) in zip(wave, group, strict=True):
                row[: len(samples)] = samples
            with autocast(device):
                z = codec.encoder(torch.from_numpy(wave).to(device)[:, None].float() / 32768)
            codes = codec.decoder.quantizer(z.float()).codes.to(torch.int16).cpu().numpy()
            found |= {place: (u, codes[i, :, : u.frames].T) for i, (place, (u, _, _)) in enumerate(group)}
            at += count
        rows += [found[i] for i in range(len(order))]
    if not rows:
        raise ValueError("encode: no utterances in the given folders")
    return Codes(
        np.concatenate([c for _, c in rows]), np.array([u.frames for u, _ in rows]), [u.text for u, _ in rows],
        [u.speaker for u, _ in rows], np.array([u.held_out for u, _ in rows]),
    )  # fmt: skip
