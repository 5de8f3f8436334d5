"""Recordings and their timed phones as slots of 20 ms, all in the device's memory, and the batches drawn from them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.asr.spectrogram import HOP
from training.readers.bands import Bands, levelled
from training.readers.config import Batches
from training.readers.model import LONGEST_GAP, NEAR, SLOT
from training.readers.timing import Timing
from training.shards import Clip

_LEAST = 25  # slots of a clip that is worth reading
_PHONES = 256


def said_in(
    phones: NDArray[np.integer], first: NDArray[np.bool_], at: NDArray[np.integer], length: int, silent: int
) -> NDArray[np.uint8]:
    """What is said in each of `length` slots -> [length, 4], see `Reader.spoken`. `at`: the slots of the phones."""
    kind = np.concatenate([[2 * silent], 2 * phones.astype(int) + first, [2 * silent]])
    edge = np.concatenate([[0], at.astype(int), [length]])
    slot = np.arange(length)
    here = np.searchsorted(at, slot, side="right")
    since, until = slot - edge[here], edge[here + 1] - slot
    return np.stack([kind[here], kind[here + 1], since.clip(0, NEAR - 1), until.clip(0, NEAR - 1)], 1).astype(np.uint8)


@dataclass(frozen=True)
class Voice:
    """Where a clip lies among the slots, and who reads it."""

    start: int
    length: int
    source: str
    reader: str


@dataclass(frozen=True)
class Painted:
    """A batch: slots [B, T, 192], said [B, T, 4], mask [B, T], heard [B, n, 192] for the style."""

    slots: Tensor
    said: Tensor
    mask: Tensor
    heard: Tensor


@dataclass(frozen=True)
class Timed:
    """A batch: phones [B, n] int64, gaps [B, n] to the next one, mask, heard as in `Painted`."""

    phones: Tensor
    gaps: Tensor
    mask: Tensor
    heard: Tensor


class Corpus:
    """Clips with timings; normalises slots by their own mean and spread unless given others'."""

    def __init__(
        self,
        clips: Sequence[Clip],
        timings: Sequence[Timing],
        silent: int,
        batches: Batches,
        device: torch.device,
        normal: tuple[Tensor, Tensor] | None = None,
        seed: int = 1,
    ) -> None:
        """silent: the id of no phone.

        Raises:
            ValueError: none of the clips has a timing.
        """
        self._batches, self._device = batches, device
        self._random = np.random.default_rng(seed)
        timed = {t.file: t for t in timings}
        transform = Bands().to(device)
        slots: list[Tensor] = []
        said: list[NDArray[np.uint8]] = []
        phones: list[NDArray[np.uint8]] = []
        gaps: list[NDArray[np.uint8]] = []
        self.voices: list[Voice] = []
        place = 0
        for clip in clips:
            timing, length = timed.get(clip.file), len(clip.samples) // (2 * HOP)
            if timing is None or length < _LEAST or len(timing.at) >= _PHONES:
                continue
            samples = torch.from_numpy(clip.samples[: length * 2 * HOP]).to(device)
            slots.append(transform(levelled(samples)[None])[0].reshape(length, SLOT).half())
            at = timing.at.astype(int) // 2
            said.append(said_in(timing.phones, timing.first, at, length, silent))
            phones.append(np.concatenate([[2 * silent], 2 * timing.phones.astype(int) + timing.first]).astype(np.uint8))
            gap = np.diff(np.concatenate([[0], at, [length]]))
            gaps.append(gap.clip(0, LONGEST_GAP - 1).astype(np.uint8))
            reader = clip.speaker or clip.file
            self.voices.append(Voice(place, length, clip.source, f"{clip.source} {reader}"))
            place += length
        if not slots:
            raise ValueError(f"timings: none of the {len(clips)} clips has one")
        self._slots = torch.cat(slots)
        some = self._slots[:: max(1, len(self._slots) // 500_000)].float()
        self.normal = normal or (some.mean(0), some.std(0).clamp(min=0.05))
        self._said = torch.from_numpy(np.concatenate(said)).to(device)
        self._start = np.array([v.start for v in self.voices])
        self._length = np.array([v.length for v in self.voices])
        self._phones, self._gaps = (self._padded(rows) for rows in (phones, gaps))
        self._count = torch.tensor([len(p) for p in phones], device=device)
        self._groups = self._grouped()

    @property
    def hours(self) -> float:
        return float(self._length.sum()) / 50 / 3600

    def _padded(self, rows: Sequence[NDArray[np.uint8]]) -> Tensor:
        out = np.zeros((len(rows), _PHONES), np.uint8)
        for into, row in zip(out, rows, strict=True):
            into[: len(row)] = row
        return torch.from_numpy(out).to(self._device)

    def _grouped(self) -> list[tuple[int, NDArray[np.intp], float]]:
        """(slots of a row, clips of that length, their share of all slots)."""
        out: list[tuple[int, NDArray[np.intp], float]] = []
        low = 0
        for i, width in enumerate(self._batches.slots):
            high = width if i + 1 < len(self._batches.slots) else 1 << 30
            group = np.flatnonzero((self._length > low) & (self._length <= high))
            low = width
            if len(group):
                out.append((width, group, float(self._length[group].sum())))
        return out

    def _read(self, start: NDArray[np.intp], length: NDArray[np.intp], width: int) -> tuple[Tensor, Tensor, Tensor]:
        """(slots normalised, index [B, width], mask)."""
        first = torch.from_numpy(start).to(self._device, non_blocking=True)
        count = torch.from_numpy(length).to(self._device, non_blocking=True)
        step = torch.arange(width, device=self._device)[None]
        index = first[:, None] + torch.minimum(step, count[:, None] - 1)
        mean, spread = self.normal
        return (self._slots[index].float() - mean) / spread, index, step < count[:, None]

    def heard(self, which: NDArray[np.intp]) -> Tensor:
        """A random stretch of each clip, for its style; a short clip is heard over and over."""
        width = self._batches.style_slots
        room = np.maximum(self._length[which] - width, 0)
        offset = (self._random.random(len(which)) * (room + 1)).astype(np.intp)
        slots, _, mask = self._read(self._start[which] + offset, self._length[which] - offset, width)
        step = torch.arange(width, device=self._device)[None]
        count = mask.sum(1, keepdim=True)
        return slots.gather(1, (step % count)[..., None].expand(-1, -1, SLOT))

    def painted(self) -> Painted:
        """A batch for the bands."""
        total = sum(share for _, _, share in self._groups)
        kind = self._random.choice(len(self._groups), p=[share / total for _, _, share in self._groups])
        width, group, _ = self._groups[kind]
        rows = max(1, self._batches.slots_per_step // width)
        weight = self._length[group] / self._length[group].sum()
        which = group[self._random.choice(len(group), rows, p=weight)]
        room = np.maximum(self._length[which] - width, 0)
        offset = (self._random.random(rows) * (room + 1)).astype(np.intp)
        slots, index, mask = self._read(self._start[which] + offset, self._length[which] - offset, width)
        return Painted(slots, self._said[index].long(), mask, self.heard(which))

    def timed(self) -> Timed:
        """A batch for the timing network."""
        which = self._random.choice(len(self.voices), self._batches.timed_clips)
        rows = torch.from_numpy(which).to(self._device)
        count = self._count[rows]
        width = int(count.max())
        mask = torch.arange(width, device=self._device)[None] < count[:, None]
        return Timed(self._phones[rows, :width].long(), self._gaps[rows, :width].long(), mask, self.heard(which))
