"""The audio half of a segment: samples go in and encoded windows come out.

A window is *complete* once later samples can no longer change it. When that is, and its mel floor, depend on the
samples alone. Chunks and windows are encoded when they are needed: a chunk for the first hypothesis after it, or with
its window; a window when it is taken. So audio that arrives in one go is encoded in few calls, and a chunk is not
encoded for nothing while its mel floor still rises.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.lane import Steps
from engines.manifest import AsrManifest, Encoder, FixedFloor, Mel
from streaming.encoder import AudioEncoder, Encoded, rows_of
from streaming.mel import LogMel, MelStream, normalise, official_length
from streaming.work import Work

Floats = npt.NDArray[np.float32]


def complete_windows(manifest: AsrManifest, samples: int) -> int:
    """How many windows are complete in a segment of so many ``samples``."""
    return _sure(manifest.mel, samples) // _window_frames(manifest.encoder)


def window_end(manifest: AsrManifest, number: int) -> int:
    """How many samples of a segment make its window ``number``, counted from 0, complete."""
    mel = manifest.mel
    return ((number + 1) * _window_frames(manifest.encoder) - 1) * mel.hop_length + mel.n_fft // 2


def _window_frames(encoder: Encoder) -> int:
    return encoder.window_rows // encoder.chunk_rows * encoder.chunk_frames


def _sure(mel: Mel, end: int) -> int:
    """How many frames depend on no sample from ``end`` on."""
    return max(0, (end - mel.n_fft // 2) // mel.hop_length + 1)


@dataclass(slots=True)
class _Chunk:
    """The stem rows of a full chunk of the open window, and the mel floor that they were computed with."""

    floor: float
    rows: Floats


class SampleBuffer:
    """The samples of a growing stretch of audio, float32 mono. A view of them never changes."""

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
    """The audio of one segment. One of its generators runs at a time.

    It keeps the segment's samples, the mel frames of windows that were not taken, and the rows of the full chunks of
    the open window. A generator that is closed before its end changes nothing that callers see.
    """

    def __init__(self, encoder: AudioEncoder, log_mel: LogMel, work: Work, mel_maximum: float | None = None) -> None:
        """``mel_maximum`` is that of the whole clip where it is known (``ListenOptions.mel_maximum``)."""
        super().__init__()
        self._encoder, self._log_mel, self._spec = encoder, log_mel, encoder.spec
        self._work = work
        self._chunks_a_window = self._spec.window_rows // self._spec.chunk_rows
        self._maximum = mel_maximum
        self._mel = MelStream(log_mel)
        self._chunks: list[_Chunk] = []
        self.taken = 0
        """How many windows were taken."""
        self._peak = -np.inf
        """The greatest log10 mel energy of the windows taken."""

    def extend(self, samples: Floats) -> None:
        """Append samples, float32 mono at the model's rate."""
        super().extend(samples)
        began = time.perf_counter()
        before = self._mel.stable
        self._mel.feed(samples)
        self._work.mel_frames += self._mel.stable - before
        self._work.mel_seconds += time.perf_counter() - began

    def take(self) -> Steps[Encoded]:
        """Encode the oldest window that was not taken, which must be complete."""
        first = self.taken * self._chunks_a_window
        frames = (self.taken + 1) * self._chunks_a_window * self._spec.chunk_frames
        rows = yield from self._finished(first, [self._floor(frames)] * self._chunks_a_window)
        began = time.perf_counter()
        encoded = yield from self._encoder.body(np.concatenate(rows))
        self._work.body_seconds += time.perf_counter() - began
        self._work.windows += 1
        self._peak = max(self._peak, float(self._mel.frames(self._mel.kept_from, frames).max()))
        self.taken += 1
        del self._chunks[: len(rows)]
        self._mel.drop(frames)
        return encoded

    def tail(self, end: int, quiet: int = 0) -> Steps[Encoded]:
        """The encoded rows after the windows that were taken, for the clip that ends at sample ``end``, with ``quiet``
        zeros after it."""
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
        rows = yield from self._finished(first_chunk, [floor] * whole, open_chunks)
        if not rows:
            return Encoded(np.empty((0, spec.width), np.float32), None)
        window = np.concatenate(rows)
        assert self.taken * spec.window_rows + len(window) == rows_of(total, spec.chunk_frames, spec.chunk_rows)
        began = time.perf_counter()
        # There is more than one window only if windows are shorter than the stretch in which a full segment is split.
        parts = [window[at : at + spec.window_rows] for at in range(0, len(window), spec.window_rows)]
        encoded: list[Encoded] = []
        for part in parts:
            encoded.append((yield from self._encoder.body(part)))
        self._work.body_seconds += time.perf_counter() - began
        self._work.body_tails += 1
        return Encoded.joined(encoded)

    def _finished(self, first: int, floors: Sequence[float], open_chunks: Sequence[Floats] = ()) -> Steps[list[Floats]]:
        """The stem rows of full chunks after the windows taken, one for each of ``floors``, the first of them chunk
        ``first`` of the segment; then those of ``open_chunks`` (normalised mel). Rows of a full chunk are kept, and
        computed again only if its floor has risen."""
        frames = self._spec.chunk_frames
        old = [i for i, floor in enumerate(floors[: len(self._chunks)]) if self._chunks[i].floor != floor]
        new = range(len(self._chunks), len(floors))
        mels = list(open_chunks)
        for i in (*old, *new):
            at = (first + i) * frames
            mels.append(normalise(self._mel.frames(at, at + frames), floors[i]))
        began = time.perf_counter()
        found = (yield from self._encoder.stems(mels)) if mels else []
        self._work.stem_seconds += time.perf_counter() - began
        for i, rows in zip((*old, *new), found[len(open_chunks) :], strict=True):
            self._chunks[i : i + 1] = [_Chunk(floors[i], rows)]
        self._work.stem_repeats += len(old)
        self._work.stem_chunks += len(new)
        self._work.stem_tails += len(open_chunks)
        return [*(chunk.rows for chunk in self._chunks[: len(floors)]), *found[: len(open_chunks)]]

    def _floor(self, frames: int, edge: Floats | None = None) -> float:
        """The mel floor, log10, of a clip of the first ``frames`` frames and the provisional ``edge`` after them."""
        floor = self._log_mel.mel.floor
        if isinstance(floor, FixedFloor):
            return floor.log10
        if self._maximum is not None:
            return self._maximum - floor.range
        kept = self._mel.frames(self._mel.kept_from, max(frames, self._mel.kept_from))
        peaks = [float(part.max()) for part in (kept, edge) if part is not None and part.size]
        return max([self._peak, *peaks]) - floor.range

    def _edge(self, end: int, length: int, first: int, total: int) -> Floats:
        """The frames ``first … total`` of the clip that ends at sample ``end``, which depend on samples after that end.

        Zeros pad the clip up to ``length``, and its right edge is reflected. Returns log10 energies [bins, frames].
        """
        mel = self._log_mel.mel
        half = mel.n_fft // 2
        start = first * mel.hop_length - half
        clip = np.pad(self.audio(max(start, 0), end), (0, length - end))
        padded = np.pad(clip, (-start if start < 0 else 0, half), mode="reflect")
        return self._log_mel.frames(padded, total - first).T
