"""The audio half of a segment: samples in, encoder windows out.

A window is *complete* once later samples can no longer change it; that, and its mel floor, follow from the samples
alone. Chunks and windows are encoded when somebody needs them: a chunk for the first hypothesis after it, or with its
window; a window when it is taken. So what arrives at once is computed at once, and a chunk whose floor is still rising
is not computed for nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.batching import Owner
from engines.manifest import AsrManifest, Encoder, FixedFloor, Mel
from streaming.encoder import Encoded, rows_of
from streaming.engine import Engine
from streaming.mel import MelStream, normalise, official_length
from streaming.work import Work

Floats = npt.NDArray[np.float32]


def complete_windows(manifest: AsrManifest, samples: int) -> int:
    """Windows of a segment whose first ``samples`` no later sample can change."""
    return _sure(manifest.mel, samples) // _window_frames(manifest.encoder)


def window_end(manifest: AsrManifest, number: int) -> int:
    """Samples of a segment that complete its window ``number``, counted from 0."""
    mel = manifest.mel
    return ((number + 1) * _window_frames(manifest.encoder) - 1) * mel.hop_length + mel.n_fft // 2


def _window_frames(encoder: Encoder) -> int:
    return encoder.window_rows // encoder.chunk_rows * encoder.chunk_frames


def _sure(mel: Mel, end: int) -> int:
    """Frames that see no sample from ``end`` on."""
    return max(0, (end - mel.n_fft // 2) // mel.hop_length + 1)


@dataclass(slots=True)
class _Chunk:
    """Stem rows of a finished chunk of the open window, and the mel floor they were computed with."""

    floor: float
    rows: Floats


class SampleBuffer:
    """Samples of a stretch of audio, float32 mono, as they come. What a slice showed never changes."""

    def __init__(self) -> None:
        self._samples = np.empty(64_000, np.float32)
        self.length = 0

    def extend(self, samples: Floats) -> None:
        """Append samples."""
        need = self.length + len(samples)
        if need > len(self._samples):
            grown = np.empty(max(need, 2 * len(self._samples)), np.float32)
            grown[: self.length] = self._samples[: self.length]
            self._samples = grown
        self._samples[self.length : need] = samples
        self.length = need

    def audio(self, start: int, stop: int) -> Floats:
        """A view of the samples ``start … stop``, as far as they are there."""
        return self._samples[start : min(stop, self.length)]


class Windows(SampleBuffer):
    """Audio of one segment. Blocking; one thread at a time.

    State: the segment's samples, the mel frames from the first window on that was not taken, the rows of the finished
    chunks of the open window. A call that ends with Cancelled changes nothing but what is kept for the next.
    """

    def __init__(self, engine: Engine, work: Work, mel_maximum: float | None = None) -> None:
        """``mel_maximum``: of the whole clip, where it is known (``ListenOptions.mel_maximum``)."""
        super().__init__()
        self._encoder, self._log_mel, self._spec = engine.encoder, engine.log_mel, engine.manifest.encoder
        self._work = work
        self._chunks_a_window = self._spec.window_rows // self._spec.chunk_rows
        self._maximum = mel_maximum
        self._mel = MelStream(engine.log_mel)
        self._chunks: list[_Chunk] = []
        self.taken = 0
        """Windows taken."""
        self._peak = -np.inf
        """Mel maximum (log10) of the windows taken."""

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        super().extend(samples)
        began = time.perf_counter()
        before = self._mel.stable
        self._mel.feed(samples)
        self._work.mel_frames += self._mel.stable - before
        self._work.mel_seconds += time.perf_counter() - began

    def take(self, owner: Owner) -> Encoded:
        """Encode the oldest window that was not taken; it is complete."""
        first = self.taken * self._chunks_a_window
        frames = (self.taken + 1) * self._chunks_a_window * self._spec.chunk_frames
        rows = self._finished(first, [self._floor(frames)] * self._chunks_a_window, owner)
        began = time.perf_counter()
        encoded = self._encoder.body(np.concatenate(rows), owner)
        self._work.body_seconds += time.perf_counter() - began
        self._work.windows += 1
        self._peak = max(self._peak, float(self._mel.frames(self._mel.kept_from, frames).max()))
        self.taken += 1
        del self._chunks[: len(rows)]
        self._mel.drop(frames)
        return encoded

    def tail(self, end: int, owner: Owner, quiet: int = 0) -> Encoded:
        """The rows after the windows that were taken, for the clip that ends at sample ``end``, with ``quiet`` zeros
        behind it."""
        spec, mel = self._spec, self._log_mel.mel
        first_chunk = self.taken * self._chunks_a_window
        length = max(official_length(end), end + quiet)
        total = length // mel.hop_length
        began = time.perf_counter()
        sure = min(_sure(mel, end), self._mel.stable, total)
        edge = self._edge(end, length, sure, total)
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
        rows = self._finished(first_chunk, [floor] * whole, owner, open_chunks)
        if not rows:
            return Encoded(np.empty((0, spec.width), np.float32), None)
        window = np.concatenate(rows)
        assert self.taken * spec.window_rows + len(window) == rows_of(total, spec.chunk_frames, spec.chunk_rows)
        began = time.perf_counter()
        # More than one window only where windows are shorter than the stretch in which a full segment is split.
        parts = [window[at : at + spec.window_rows] for at in range(0, len(window), spec.window_rows)]
        encoded = [self._encoder.body(part, owner) for part in parts]
        self._work.body_seconds += time.perf_counter() - began
        self._work.body_tails += 1
        return Encoded.joined(encoded)

    def _finished(
        self, first: int, floors: Sequence[float], owner: Owner, open_chunks: Sequence[Floats] = ()
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
        found = self._encoder.stems(mels, owner) if mels else []
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

    def _edge(self, end: int, length: int, first: int, total: int) -> Floats:
        """Frames ``first … total`` of the clip that ends at sample ``end``, whose windows reach over that end.

        They are log10 energies [bins, frames] with the right edge reflected, after zeros up to ``length``.
        """
        mel = self._log_mel.mel
        half = mel.n_fft // 2
        start = first * mel.hop_length - half
        clip = np.pad(self.audio(max(start, 0), end), (0, length - end))
        padded = np.pad(clip, (-start if start < 0 else 0, half), mode="reflect")
        return self._log_mel.frames(padded, total - first).T
