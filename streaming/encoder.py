"""The fixed-window encoder: a convolution stem once per chunk, a transformer body once per window.

``stem`` sees one chunk of mel frames (released checkpoints: 100 frames of 10 ms, 13 rows) and ``body`` the rows of one
window (8 s, 104 rows) with a key mask; it gives the decoder's embeddings. Nothing crosses a chunk in the stem or a
window in the body (the checkpoints were trained so), hence a chunk's rows and a closed window's embeddings never
change. How long both are, the manifest says. Source: QwenLM/Qwen3-ASR, modeling_qwen3_asr.py:676-740 with the attention
windows of its vLLM backend; see docs/hearing.md.

Neither the size of a batch nor padding changes a bit of a row (tests/streaming/test_encoder.py), so sessions may share
calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from engines.batching import Lane, Owner
from engines.manifest import Encoder
from engines.onnx import CPU, Graph

Floats = npt.NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows of one window: ``embeddings`` [rows, width] and, of a model that has a CTC head, its log-probabilities
    ``ctc`` [rows, vocabulary + 1]."""

    embeddings: Floats
    ctc: Floats | None

    @classmethod
    def joined(cls, parts: Sequence["Encoded"]) -> "Encoded":
        """The rows of one window or more, in order; all of one model."""
        if len(parts) == 1:
            return parts[0]
        ctc = [part.ctc for part in parts if part.ctc is not None]
        return cls(np.concatenate([part.embeddings for part in parts]), np.concatenate(ctc) if ctc else None)

    def cut(self, rows: int) -> "Encoded":
        """The first ``rows`` rows."""
        return Encoded(self.embeddings[:rows], None if self.ctc is None else self.ctc[:rows])


ROW_FRAMES: Final = 8
"""Mel frames of a row: three layers of stride 2. The last row of a chunk may have fewer."""
BODY_GRAIN: Final = 13
"""Open windows are padded to multiples of so many rows: fewer shapes, so that sessions meet in one call more often."""


def rows_of(frames: int, chunk_frames: int, chunk_rows: int) -> int:
    """Encoder rows of ``frames`` mel frames: ``chunk_rows`` a full chunk, ceil(rest / 8) of the last."""
    return frames // chunk_frames * chunk_rows + -(-(frames % chunk_frames) // ROW_FRAMES)


class AudioEncoder:
    """The two graphs, shared by all sessions. Methods may be called from any thread and block for their result."""

    def __init__(self, spec: Encoder, stem: Graph | None, body: Graph, lane: Lane, bins: int) -> None:
        """``stem``: None of a model that has none and takes no chunks."""
        self.spec = spec
        self._stem, self._body, self._lane, self._bins = stem, body, lane, bins
        # Older exports may have further heads.
        self._wanted = ("embeddings",) if spec.ctc_blank is None else ("embeddings", "ctc")
        # Stems with 8-bit convolutions (export/quantize.py), those of older exports, and providers that want fixed
        # shapes take whole chunks only.
        self._whole = stem is None or stem.fixed or not stem.is_dynamic("mel", 2)
        # On a CPU a batch only falls out of the cache (at 0.6B dimensions 8 chunks at once take 7 % longer than one by
        # one, and 260 MB more) and makes a job that others wait for long.
        self._most = 1 if body.provider == CPU else body.batches[-1]

    def stems(self, chunks: Sequence[Floats], owner: Owner | None = None) -> list[Floats]:
        """Rows of chunks, each float32 [bins, ≤ chunk_frames] → [rows_of(frames), stem_width].

        An unfinished chunk counts as filled with zeros. A row sees no frame beyond its own last, so those zeros need
        not be computed: the chunk is padded to whole rows only, where the graph takes it.
        """
        spec = self.spec
        padded: list[Floats] = []
        for chunk in chunks:
            width = spec.chunk_frames if self._whole else -(-chunk.shape[1] // ROW_FRAMES) * ROW_FRAMES
            width = min(width, spec.chunk_frames)
            padded.append(np.pad(chunk, ((0, 0), (0, width - chunk.shape[1]))) if chunk.shape[1] < width else chunk)
        key = None if self._most == 1 else (id(self), "stem", frozenset(chunk.shape[1] for chunk in padded))
        found = self._lane.submit(padded, self._run_stem, key=key, owner=owner)
        counts = [rows_of(chunk.shape[1], spec.chunk_frames, spec.chunk_rows) for chunk in chunks]
        return [rows[:count] for rows, count in zip(found, counts, strict=True)]

    def body(self, rows: Floats, owner: Owner | None = None) -> Encoded:
        """Embeddings of a window from its stem rows [≤ window_rows, stem_width]."""
        padded = self._padded(rows)
        key = None if self._most == 1 else (id(self), "body", len(padded[1]))
        return self._lane.submit([padded], self._run_body, key=key, owner=owner)[0].cut(len(rows))

    def _padded(self, rows: Floats) -> tuple[Floats, Floats]:
        """Rows and key mask, padded."""
        most = self.spec.window_rows
        length = most if self._body.fixed else min(-(-len(rows) // BODY_GRAIN) * BODY_GRAIN, most)
        padded = np.zeros((length, rows.shape[1]), np.float32)
        padded[: len(rows)] = rows
        mask = np.zeros(length, np.float32)
        mask[: len(rows)] = 1.0
        return padded, mask

    def warm(self) -> None:
        """Run the shapes that will be run later: every one where they are fixed, else the least and the largest."""
        spec = self.spec
        for batch in self._body.batches if self._body.fixed else (1,):
            if self._stem is not None:
                self._stem.run({"mel": np.zeros((batch, self._bins, spec.chunk_frames), np.float32)})
            for length in (spec.window_rows,) if self._body.fixed else (BODY_GRAIN, spec.window_rows):
                rows = np.zeros((batch, length, spec.stem_width), np.float32)
                self._body.run(self._feeds(rows, np.ones((batch, length), np.float32)))

    def _feeds(self, rows: Floats, mask: Floats) -> dict[str, npt.NDArray[Any]]:
        """The body's inputs; where it makes its masks itself it is told how many rows are valid."""
        if "mask" in self._body.inputs:
            return {"rows": rows, "mask": mask}
        return {"rows": rows, "valid_rows": mask.sum(1).astype(np.int64)}

    def _run_stem(self, jobs: Sequence[Sequence[Floats]]) -> list[list[Floats]]:
        def run(group: Sequence[Floats]) -> list[Floats]:
            assert self._stem is not None
            return list(self._stem.run({"mel": _pad_batch(np.stack(group), self._stem)})[0])

        return _in_batches(jobs, run, lambda chunk: chunk.shape[1], self._most)

    def _run_body(self, jobs: Sequence[Sequence[tuple[Floats, Floats]]]) -> list[list[Encoded]]:
        def run(group: Sequence[tuple[Floats, Floats]]) -> list[Encoded]:
            rows = _pad_batch(np.stack([window[0] for window in group]), self._body)
            mask = _pad_batch(np.stack([window[1] for window in group]), self._body)
            outputs = self._body.run(self._feeds(rows, mask), self._wanted)
            ctc = outputs[1] if len(outputs) > 1 else None
            return [Encoded(outputs[0][i], None if ctc is None else ctc[i]) for i in range(len(group))]

        return _in_batches(jobs, run, lambda window: len(window[0]), self._most)


def _in_batches(
    jobs: Sequence[Sequence[Item]],
    run: Callable[[Sequence[Item]], Sequence[Result]],
    length: Callable[[Item], int],
    most: int,
) -> list[list[Result]]:
    """The results of all items of all jobs, job by job; items of equal length share calls of at most ``most``."""
    alike: dict[int, list[tuple[int, int]]] = {}
    for i, job in enumerate(jobs):
        for k, item in enumerate(job):
            alike.setdefault(length(item), []).append((i, k))
    found: dict[tuple[int, int], Result] = {}
    for places in alike.values():
        for first in range(0, len(places), most):
            group = places[first : first + most]
            results = run([jobs[i][k] for i, k in group])
            found.update(zip(group, results, strict=False))  # a padded batch gives more
    return [[found[i, k] for k in range(len(job))] for i, job in enumerate(jobs)]


def _pad_batch(batch: Floats, graph: Graph) -> Floats:
    """Repeat the last item up to the next fixed batch size, where ``graph`` wants sizes fixed."""
    if not graph.fixed:
        return batch
    size = next(b for b in graph.batches if b >= len(batch))
    return np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), 0)]) if size > len(batch) else batch
