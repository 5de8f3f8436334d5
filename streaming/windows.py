"""The audio half of a segment: samples in, encoder windows out.

A window is *closed* once the samples can no longer change it; whether it is, and with which mel floor, depends on the
samples alone. Chunks and windows are encoded when somebody needs them: a chunk for the first hypothesis after it, or
with its window; windows when the caller asks for them (``take``). So what arrives at once is computed at once, in few
calls, and a chunk whose floor is still rising is not computed for nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engines.batching import Owner, Urgency
from engines.manifest import FixedFloor
from streaming.encoder import Encoded, rows_of
from streaming.mel import MelStream, normalise, official_length
from streaming.work import Work

if TYPE_CHECKING:
    from streaming.model import AsrModel

Floats = npt.NDArray[np.float32]


@dataclass(slots=True)
class _Chunk:
    """Stem rows of a finished chunk of the open window, and the mel floor they were computed with."""

    floor: float
    rows: Floats


class Windows:
    """Audio of one open segment. Blocking; one thread at a time.

    State: the segment's samples, the mel frames from the first window on that was not taken, the rows of the finished
    chunks of the open window.
    """

    def __init__(self, model: "AsrModel", owner: Owner, work: Work, mel_maximum: float | None = None) -> None:
        """``mel_maximum``: of the whole clip, where it is known (``ListenOptions.mel_maximum``)."""
        self._encoder, self._log_mel, self._spec = model.encoder, model.log_mel, model.manifest.encoder
        self._width = model.manifest.encoder.width
        self._owner, self._work = owner, work
        self._maximum = mel_maximum
        self._mel = MelStream(model.log_mel)
        self._samples = np.empty(0, np.float32)
        self.length = 0
        """Samples so far."""
        self._chunks: list[_Chunk] = []
        self._taken = 0
        self._floors: list[float] = []
        """Of the windows that are closed and not taken."""
        self._peak = -np.inf
        """Mel maximum (log10) of the windows taken."""

    @property
    def _chunks_a_window(self) -> int:
        return self._spec.window_rows // self._spec.chunk_rows

    @property
    def _window_frames(self) -> int:
        return self._chunks_a_window * self._spec.chunk_frames

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        need = self.length + len(samples)
        if need > len(self._samples):
            grown = np.empty(max(need, 2 * len(self._samples), 64_000), np.float32)
            grown[: self.length] = self._samples[: self.length]
            self._samples = grown
        self._samples[self.length : need] = samples
        self.length = need
        began = time.perf_counter()
        before = self._mel.stable
        self._mel.feed(samples)
        self._work.mel_frames += self._mel.stable - before
        self._work.mel_seconds += time.perf_counter() - began

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop``."""
        return self._samples[start : min(stop, self.length)]

    def close(self, limit: int) -> None:
        """Close the windows that the first ``limit`` samples complete. Cheap."""
        while True:
            frames = (self._taken + len(self._floors) + 1) * self._window_frames
            if self._sure(min(limit, self.length)) < frames:
                return
            self._floors.append(self._floor(frames))

    def take(self, urgency: Urgency = Urgency.DUE) -> list[Encoded]:
        """Encode the windows that closed since the last call, in order."""
        if not self._floors:
            return []
        first, each = self._taken * self._chunks_a_window, self._chunks_a_window
        floors = [floor for floor in self._floors for _ in range(each)]
        rows = self._finished(first, floors, urgency)
        windows = [np.concatenate(rows[at : at + each]) for at in range(0, len(rows), each)]
        began = time.perf_counter()
        encoded = self._encoder.bodies(windows, self._owner, urgency)
        self._work.body_seconds += time.perf_counter() - began
        self._work.windows += len(windows)
        self._taken += len(windows)
        del self._chunks[: len(rows)]
        self._floors.clear()
        frames = self._taken * self._window_frames
        self._peak = max(self._peak, float(self._mel.frames(self._mel.kept_from, frames).max()))
        self._mel.drop(frames)
        return encoded

    def tail(self, end: int, urgency: Urgency = Urgency.DUE) -> Encoded:
        """The rows after the closed windows, all of which were taken, for the clip that ends at sample ``end``."""
        assert not self._floors
        spec, mel = self._spec, self._log_mel.mel
        first_chunk = self._taken * self._chunks_a_window
        total = official_length(end) // mel.hop_length
        began = time.perf_counter()
        sure = min(self._sure(end), self._mel.stable, total)
        edge = self._edge(end, sure, total)
        self._work.mel_seconds += time.perf_counter() - began
        floor = self._floor(sure, edge)
        whole = max(0, sure // spec.chunk_frames - first_chunk)
        start = (first_chunk + whole) * spec.chunk_frames
        open_chunks: list[Floats] = []
        while start < total:
            stop = min(start + spec.chunk_frames, total)
            parts = [self._mel.frames(start, min(stop, sure))] if start < sure else []
            if stop > sure:
                parts.append(edge[:, max(start - sure, 0) : stop - sure])
            open_chunks.append(normalise(np.concatenate(parts, axis=1), floor))
            start = stop
        rows = self._finished(first_chunk, [floor] * whole, urgency, open_chunks)
        if not rows:
            return Encoded(np.empty((0, self._width), np.float32), None)
        window = np.concatenate(rows)
        assert self._taken * spec.window_rows + len(window) == rows_of(total, spec.chunk_frames, spec.chunk_rows)
        began = time.perf_counter()
        # More than one window only where windows are shorter than a seam.
        parts = [window[at : at + spec.window_rows] for at in range(0, len(window), spec.window_rows)]
        encoded = self._encoder.bodies(parts, self._owner, urgency)
        self._work.body_seconds += time.perf_counter() - began
        self._work.body_tails += 1
        return Encoded.joined(encoded)

    def _sure(self, end: int) -> int:
        """Frames that see no sample from ``end`` on."""
        mel = self._log_mel.mel
        return max(0, (end - mel.n_fft // 2) // mel.hop_length + 1)

    def _finished(
        self, first: int, floors: Sequence[float], urgency: Urgency, open_chunks: Sequence[Floats] = ()
    ) -> list[Floats]:
        """Stem rows of the finished chunks ``first …`` after the windows taken, one for each of ``floors``, then of
        ``open_chunks`` (mel). Computed here: chunks that were never needed, and those whose floor has risen since."""
        frames = self._spec.chunk_frames
        old = [i for i, floor in enumerate(floors[: len(self._chunks)]) if self._chunks[i].floor != floor]
        new = range(len(self._chunks), len(floors))
        mels = list(open_chunks)
        for i in (*old, *new):
            at = (first + i) * frames
            mels.append(normalise(self._mel.frames(at, at + frames), floors[i]))
        began = time.perf_counter()
        found = self._encoder.stems(mels, self._owner, urgency) if mels else []
        self._work.stem_seconds += time.perf_counter() - began
        for i, rows in zip((*old, *new), found[len(open_chunks) :], strict=True):
            self._chunks[i : i + 1] = [_Chunk(floors[i], rows)]
        self._work.stem_repeats += len(old)
        self._work.stem_chunks += len(new)
        self._work.stem_tails += len(open_chunks)
        return [*(chunk.rows for chunk in self._chunks[: len(floors)]), *found[: len(open_chunks)]]

    def _floor(self, frames: int, edge: Floats | None = None) -> float:
        """The mel floor, log10, for the first ``frames`` frames and the provisional ``edge`` frames after them."""
        floor = self._log_mel.mel.floor
        if isinstance(floor, FixedFloor):
            return floor.log10
        if self._maximum is not None:
            return self._maximum - floor.range
        kept = self._mel.frames(self._mel.kept_from, max(frames, self._mel.kept_from))
        peaks = [float(part.max()) for part in (kept, edge) if part is not None and part.size]
        return max([self._peak, *peaks]) - floor.range

    def _edge(self, end: int, first: int, total: int) -> Floats:
        """Frames ``first … total`` of the clip that ends at sample ``end``, whose windows reach over that end.

        They are log10 energies [bins, frames] with the right edge reflected, after zeros up to the official length.
        """
        mel = self._log_mel.mel
        half = mel.n_fft // 2
        start = first * mel.hop_length - half
        clip = np.pad(self._samples[max(start, 0) : end], (0, official_length(end) - end))
        padded = np.pad(clip, (-start if start < 0 else 0, half), mode="reflect")
        return self._log_mel.frames(padded, total - first).T
