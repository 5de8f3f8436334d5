"""The fixed-window encoder: a convolution stem once per chunk, a transformer body once per window.

``stem`` turns one chunk of mel frames into rows (in released checkpoints 100 frames of 10 ms into 13 rows), and
``body`` turns the rows of one window (8 s, 104 rows) into the decoder's embeddings. Nothing crosses a chunk in the stem
or a window in the body, as the checkpoints were trained, hence the rows of a chunk and the embeddings of a closed
window never change. The manifest tells how long both are. Source: QwenLM/Qwen3-ASR, modeling_qwen3_asr.py:676-740 with
the attention windows of its vLLM backend; see docs/hearing.md.

Neither the size of a batch nor padding changes a bit of a row (tests/streaming/test_encoder.py), so sessions may share
calls. They do so on a graphics card, where a batch takes little longer than one item; on a CPU calls run side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from engines.lane import Steps, call
from engines.manifest import Encoder
from engines.onnx import CPU, Graph
from engines.scheduling import Place

Floats = npt.NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Encoded:
    """The encoded rows of one window, float32: ``embeddings`` [rows, width] and, from a model with a CTC head, the
    head's log-probabilities ``ctc`` [rows, vocabulary + 1]."""

    embeddings: Floats
    ctc: Floats | None

    @classmethod
    def joined(cls, parts: Sequence["Encoded"]) -> "Encoded":
        """The rows of several windows, in order; at least one, all from the same model."""
        if len(parts) == 1:
            return parts[0]
        ctc = [part.ctc for part in parts if part.ctc is not None]
        return cls(np.concatenate([part.embeddings for part in parts]), np.concatenate(ctc) if ctc else None)

    def cut(self, rows: int) -> "Encoded":
        """The first ``rows`` rows."""
        return Encoded(self.embeddings[:rows], None if self.ctc is None else self.ctc[:rows])


ROW_FRAMES: Final = 8
"""How many mel frames make a row: the stem has three convolutions of stride 2. A chunk's last row may have fewer."""
BODY_GRAIN: Final = 13
"""An open window is padded to a multiple of so many rows, a second of a released checkpoint. Fewer shapes let sessions
share a call more often."""


def rows_of(frames: int, chunk_frames: int, chunk_rows: int) -> int:
    """How many encoder rows ``frames`` mel frames give: ``chunk_rows`` a full chunk, and ceil(rest / 8) for a rest."""
    return frames // chunk_frames * chunk_rows + -(-(frames % chunk_frames) // ROW_FRAMES)


class AudioEncoder:
    """The stem and the body, shared by all sessions."""

    def __init__(self, spec: Encoder, stem: Graph | None, body: Graph, bins: int) -> None:
        """``stem``: None for a model whose body takes its frames directly; ``bins``: how many mel bins a frame has."""
        self.spec = spec
        self._stem, self._body, self._bins = stem, body, bins
        # The outputs are asked for by name, since older exports have further heads.
        self._wanted = ("embeddings",) if spec.ctc_blank is None else ("embeddings", "ctc")
        # Whole chunks are all that stems with 8-bit convolutions (export/trace/quantize.py), stems of older exports
        # and providers with fixed shapes take.
        self._whole = stem is None or stem.fixed or not stem.is_dynamic("mel", 2)
        # On a CPU a batch is no faster, since it no longer fits the processor's cache: at 0.6B dimensions 8 chunks at
        # once take 7 % longer than one by one, and 260 MB more. Others would also wait longer for it to end.
        self._most = 1 if body.provider == CPU else body.batches[-1]
        self.place = None if body.provider == CPU else Place()
        """Where calls queue so that the graphs run one at a time; None on a CPU, which runs several side by side."""

    def stems(self, chunks: Sequence[Floats]) -> Steps[list[Floats]]:
        """The rows of each chunk: float32 [bins, frames], frames ≤ chunk_frames, gives float32 [rows, stem_width].

        An unfinished chunk counts as if zeros followed. No row depends on frames after its own last one, so the chunk
        is padded only up to a whole row, where the graph takes such a length.
        """
        spec = self.spec
        padded: list[Floats] = []
        for chunk in chunks:
            width = spec.chunk_frames if self._whole else -(-chunk.shape[1] // ROW_FRAMES) * ROW_FRAMES
            width = min(width, spec.chunk_frames)
            padded.append(np.pad(chunk, ((0, 0), (0, width - chunk.shape[1]))) if chunk.shape[1] < width else chunk)
        key = None if self._most == 1 else (id(self), "stem", frozenset(chunk.shape[1] for chunk in padded))
        found = yield from call(self._run_stem, padded, key=key, place=self.place)
        counts = [rows_of(chunk.shape[1], spec.chunk_frames, spec.chunk_rows) for chunk in chunks]
        return [rows[:count] for rows, count in zip(found, counts, strict=True)]

    def body(self, rows: Floats) -> Steps[Encoded]:
        """Encode a window from its stem rows, float32 [rows, stem_width], rows ≤ window_rows."""
        padded = self._padded(rows)
        key = None if self._most == 1 else (id(self), "body", len(padded[1]))
        (encoded,) = yield from call(self._run_body, [padded], key=key, place=self.place)
        return encoded.cut(len(rows))

    def _padded(self, rows: Floats) -> tuple[Floats, Floats]:
        """The rows padded to a length that the body takes, and the key mask: 1 for a row, 0 for padding."""
        most = self.spec.window_rows
        length = most if self._body.fixed else min(-(-len(rows) // BODY_GRAIN) * BODY_GRAIN, most)
        padded = np.zeros((length, rows.shape[1]), np.float32)
        padded[: len(rows)] = rows
        mask = np.zeros(length, np.float32)
        mask[: len(rows)] = 1.0
        return padded, mask

    def warm(self) -> None:
        """Run the graphs on zeros, so that no session waits for memory or compilation: on every shape where the
        provider's shapes are fixed, else on the shortest and the longest window."""
        spec = self.spec
        if self._stem is not None:
            for batch in self._stem.batches if self._stem.fixed else (1,):
                self._stem.run({"mel": np.zeros((batch, self._bins, spec.chunk_frames), np.float32)})
        for batch in self._body.batches if self._body.fixed else (1,):
            for length in (spec.window_rows,) if self._body.fixed else (BODY_GRAIN, spec.window_rows):
                rows = np.zeros((batch, length, spec.stem_width), np.float32)
                self._body.run(self._feeds(rows, np.ones((batch, length), np.float32)))

    def _feeds(self, rows: Floats, mask: Floats) -> dict[str, npt.NDArray[Any]]:
        """The body's inputs; a body that makes its mask itself is told how many rows are valid."""
        if "mask" in self._body.inputs:
            return {"rows": rows, "mask": mask}
        return {"rows": rows, "valid_rows": mask.sum(1).astype(np.int64)}

    def _run_stem(self, jobs: Sequence[Sequence[Floats]]) -> list[list[Floats]]:
        stem = self._stem
        assert stem is not None

        def run(group: Sequence[Floats]) -> list[Floats]:
            return list(stem.run({"mel": _pad_batch(np.stack(group), stem)})[0])

        return _in_batches(jobs, run, lambda chunk: chunk.shape[1], min(self._most, stem.batches[-1]))

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
    """Run every item of every job and return the results job by job. Items of equal length share calls, at most
    ``most`` a call."""
    alike: dict[int, list[tuple[int, int]]] = {}
    for i, job in enumerate(jobs):
        for k, item in enumerate(job):
            alike.setdefault(length(item), []).append((i, k))
    found: dict[tuple[int, int], Result] = {}
    for places in alike.values():
        for first in range(0, len(places), most):
            group = places[first : first + most]
            results = run([jobs[i][k] for i, k in group])
            found.update(zip(group, results, strict=False))  # A padded batch gives more results.
    return [[found[i, k] for k in range(len(job))] for i, job in enumerate(jobs)]


def _pad_batch(batch: Floats, graph: Graph) -> Floats:
    """Where ``graph`` has fixed batch sizes: repeat the last item of ``batch`` up to the next of them."""
    if not graph.fixed:
        return batch
    size = next(b for b in graph.batches if b >= len(batch))
    return np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), 0)]) if size > len(batch) else batch
