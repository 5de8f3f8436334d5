"""The audio half of a Fun-ASR-Nano segment.

Every row attends to every other, before and after, and of n embeddings only the first n / 8 go into the decoder: a
window by itself is nothing this model was trained on, so nothing of an open segment can be frozen. What is frozen are
the frames. Each look encodes the segment from its beginning; that is bounded by the longest segment, the decoder's
share of it is small (⌈n / 8⌉ rows), and the listener looks less often where a look takes longer. A final's rows follow
from its samples alone, so its text is the same however the audio arrived.
"""

import time

import numpy as np
import numpy.typing as npt

from engines.batching import Owner
from streaming.encoder import Encoded
from streaming.engine import Engine
from streaming.fun_asr.fbank import Fbank
from streaming.windows import SampleBuffer
from streaming.work import Work

Floats = npt.NDArray[np.float32]


class WholeClip(SampleBuffer):
    """Audio of one segment, with the methods of :class:`streaming.windows.Windows`. Blocking; one thread at a time."""

    def __init__(self, engine: Engine, front: Fbank, work: Work) -> None:
        self._encoder, self._front, self._work = engine.encoder, front, work
        super().__init__()
        self._frames = np.empty((0, front.mel.bins), np.float32)

    def _heard(self, count: int) -> Floats:
        """The first ``count`` frames, computed once each."""
        front, known = self._front, len(self._frames)
        if count > known:
            new = front.frames(self._samples[front.mel.hop_length * known : self.length], count - known)
            self._work.mel_frames += len(new)
            self._frames = np.concatenate([self._frames, new])
        return self._frames[:count]

    def take(self, owner: Owner) -> Encoded:
        """There are no windows: none is ever complete."""
        raise AssertionError("a whole clip has no windows")

    def tail(self, end: int, owner: Owner, quiet: int = 0) -> Encoded:
        """The rows of the clip that ends at sample ``end``: the embeddings that go into the decoder, and all of the CTC
        head's. ``quiet``: heard by no released model of this kind, so it is not added."""
        front, began = self._front, time.perf_counter()
        frames = self._heard(front.count(end))
        if not len(frames):  # shorter than a frame: filled up with zeros, until there is more
            frames = front.frames(np.pad(self._samples[:end], (0, front.spec.frame_length - end)), 1)
        rows = front.rows(frames)
        self._work.mel_seconds += time.perf_counter() - began
        began = time.perf_counter()
        found = self._encoder.body(rows, owner)
        self._work.body_seconds += time.perf_counter() - began
        self._work.body_tails += 1
        return Encoded(found.embeddings[: front.spec.heard(len(rows))], found.ctc)
