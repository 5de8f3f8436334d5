"""Utterances are grouped so that every batch is exactly rectangular, twice: by phonemes, then by frames.

Durations are rounded to frames. The last pad of a row is lengthened until the row has a whole number of STEP frames, so
that few different lengths are left.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.speech.contour import Bend, bent, ramps
from training.speech.kokoro import Kokoro, Planned
from training.speech.voices import Voice, Voices

# Frames, 0.2 s: lengths differ by as much, and a tail of silence of that length is trimmed away anyway.
STEP = 8
# Frames of the longest utterance, 16 s; what lasts longer is left out.
FRAMES = 640
# Kokoro's frames are 25 ms long.
_FRAMES_A_SECOND = 40
# Rows of a batch of sound at most. Short lines are few, and waiting for more of one length would keep them until the
# end.
_MOST_ROWS = 128


@dataclass(frozen=True)
class Order:
    """Something to be said. text: as it is written; tokens: its phonemes without pads; aligned: whether the words of
    the text and of the tokens correspond; sounds: the line as the talker reads it; bends: of its pitch."""

    text: str
    tokens: NDArray[np.uint8]
    voice: Voice
    speed: float
    aligned: bool
    sounds: str = ""
    bends: tuple[Bend, ...] = ()


@dataclass(frozen=True)
class Said:
    """A batch of sound: float32 [B, N] at 24 kHz, its orders, and their durations int64 [B, T] in frames, pads
    counted."""

    wave: Tensor
    orders: list[Order]
    durations: NDArray[np.int64]


@dataclass(frozen=True)
class _Waiting:
    order: Order
    style: Tensor
    prosody: Tensor
    phonemes: Tensor
    durations: Tensor


class Batches:
    """Orders come in by `add`, and batches of sound come out of it as soon as they are full."""

    def __init__(self, model: Kokoro, voices: Voices, device: torch.device, rows: int, seconds: float) -> None:
        """rows: of a batch of phonemes; seconds: of sound in a batch of frames."""
        self._model, self._voices, self._device = model, voices, device
        self._rows, self._frames = rows, seconds * _FRAMES_A_SECOND
        self._by_tokens: dict[int, list[Order]] = defaultdict(list)
        self._by_frames: dict[int, list[_Waiting]] = defaultdict(list)
        self.too_long = 0

    def add(self, order: Order) -> Iterator[Said]:
        """Give what has become full by this order."""
        group = self._by_tokens[len(order.tokens)]
        group.append(order)
        if len(group) >= self._rows:
            yield from self._plan(self._by_tokens.pop(len(order.tokens)))

    def finish(self) -> Iterator[Said]:
        """Give what is planned and still waits, in smaller batches, the shortest first. Otherwise the rarer lengths
        would never be said."""
        self._by_tokens.clear()
        for frames in sorted(self._by_frames):
            yield from self._say(self._by_frames.pop(frames))

    @torch.inference_mode()
    def _plan(self, orders: list[Order]) -> Iterator[Said]:
        length = len(orders[0].tokens)
        padded = np.zeros((len(orders), length + 2), np.int64)
        padded[:, 1:-1] = [o.tokens for o in orders]
        styles = self._voices.styles([o.voice for o in orders], length)
        speed = torch.tensor([o.speed for o in orders], device=self._device)
        planned = self._model.plan(torch.from_numpy(padded).to(self._device), styles, speed)
        durations = planned.durations.cpu()
        sums = durations.sum(1)
        durations[:, -1] += -sums % STEP
        for i, order in enumerate(orders):
            frames = int(durations[i].sum())
            if frames > FRAMES:
                self.too_long += 1
                continue
            # Rows of a batch have the same number of frames but seldom the same number of phonemes; `_sound` pads the
            # phonemes.
            group = self._by_frames[frames]
            # Copies are kept, because a row that waits long for others of its length must not keep its whole batch in
            # memory.
            parts = (part[i].clone() for part in (styles, planned.prosody, planned.phonemes))
            group.append(_Waiting(order, *parts, durations[i]))
            if len(group) * frames >= self._frames or len(group) >= _MOST_ROWS:
                yield from self._say(self._by_frames.pop(frames))

    @torch.inference_mode()
    def _say(self, group: list[_Waiting]) -> Iterator[Said]:
        try:
            yield self._sound(group)
            return
        except torch.OutOfMemoryError:
            if len(group) == 1:
                raise
        torch.cuda.empty_cache()
        half = len(group) // 2
        yield from self._say(group[:half])
        yield from self._say(group[half:])

    def _sound(self, group: list[_Waiting]) -> Said:
        # A phoneme that lasts no frame is never read, so what pads the rows here does not reach the network.
        parts = zip(*((w.prosody, w.phonemes, w.durations) for w in group), strict=True)
        prosody, phonemes, durations = (torch.nn.utils.rnn.pad_sequence(part, batch_first=True) for part in parts)
        planned = Planned(prosody, phonemes, durations.to(self._device))
        frames = int(durations[0].sum())
        along = [part.to(self._device) for part in ramps([w.order.bends for w in group], durations, frames)]
        contour = (lambda pitch: bent(pitch, *along)) if any(w.order.bends for w in group) else None
        wave = self._model.say(planned, torch.stack([w.style for w in group]), frames, contour=contour)
        return Said(wave, [w.order for w in group], durations.numpy())
