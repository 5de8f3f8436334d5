"""The fixed-window 3D encoder: a convolution stem once per 1 s chunk, a transformer body once per 8 s window.

``stem`` sees one chunk of 100 mel frames and gives 13 rows; ``body`` sees up to 104 rows of one window with a key mask
and gives the decoder's embeddings. Nothing crosses a chunk in the stem or a window in the body (the checkpoints were
trained so), hence a chunk's rows and a closed window's embeddings never change. Source: QwenLM/Qwen3-ASR,
modeling_qwen3_asr.py:676-740 with the attention windows of its vLLM backend; see docs/streaming.md.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.batching import Lane, Owner, Urgency
from engines.manifest import Encoder
from engines.onnx import BATCHES, Graph

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows of one window: ``embeddings`` [rows, width] and CTC log-probabilities [rows, vocabulary + 1] or None."""

    embeddings: Floats
    ctc: Floats | None


def rows_of(frames: int, chunk_frames: int, chunk_rows: int) -> int:
    """Encoder rows of ``frames`` mel frames: 13 a full chunk, ceil(rest / 8) of the last (three stride-2 layers)."""
    return frames // chunk_frames * chunk_rows + -(-(frames % chunk_frames) // 8)


class AudioEncoder:
    """The two graphs, shared by all sessions. Methods may be called from any thread and block for their result."""

    def __init__(self, spec: Encoder, stem: Graph, body: Graph, lane: Lane, bins: int) -> None:
        self.spec = spec
        self._stem, self._body, self._lane, self._bins = stem, body, lane, bins

    def stem(self, chunk: Floats, owner: Owner | None = None, urgency: Urgency = Urgency.DUE) -> Floats:
        """Rows of one chunk: float32 [bins, ≤ chunk_frames], zero-padded here → [rows_of(frames), stem_width]."""
        spec = self.spec
        frames = chunk.shape[1]
        if frames < spec.chunk_frames:
            chunk = np.pad(chunk, ((0, 0), (0, spec.chunk_frames - frames)))
        rows = self._lane.submit(chunk, self._run_stem, key="stem", owner=owner, urgency=urgency)
        return rows[: rows_of(frames, spec.chunk_frames, spec.chunk_rows)]

    def body(self, rows: Floats, owner: Owner | None = None, urgency: Urgency = Urgency.DUE) -> Encoded:
        """Embeddings of one window from its stem rows [≤ window_rows, stem_width]."""
        count = len(rows)
        length = self.spec.window_rows if self._body.fixed else -(-count // self.spec.chunk_rows) * self.spec.chunk_rows
        padded = np.zeros((length, rows.shape[1]), np.float32)
        padded[:count] = rows
        mask = np.zeros(length, np.float32)
        mask[:count] = 1.0
        encoded = self._lane.submit((padded, mask), self._run_body, key=("body", length), owner=owner, urgency=urgency)
        return Encoded(encoded.embeddings[:count], None if encoded.ctc is None else encoded.ctc[:count])

    def warm(self) -> None:
        """Run every shape once that will be run later."""
        spec = self.spec
        for batch in BATCHES if self._stem.fixed else (1,):
            self._stem.run({"mel": np.zeros((batch, self._bins, spec.chunk_frames), np.float32)})
        for batch in BATCHES if self._body.fixed else (1,):
            for length in (spec.window_rows,) if self._body.fixed else (spec.chunk_rows, spec.window_rows):
                rows = np.zeros((batch, length, spec.stem_width), np.float32)
                self._body.run({"rows": rows, "mask": np.ones((batch, length), np.float32)})

    def _run_stem(self, chunks: list[Floats]) -> list[Floats]:
        out: list[Floats] = []
        for first, size in _batches(len(chunks)):
            batch = _pad_batch(np.stack(chunks[first : first + size]), self._stem.fixed)
            out += list(self._stem.run({"mel": batch})[0][: min(size, len(chunks) - first)])
        return out

    def _run_body(self, windows: list[tuple[Floats, Floats]]) -> list[Encoded]:
        out: list[Encoded] = []
        for first, size in _batches(len(windows)):
            group = windows[first : first + size]
            rows = _pad_batch(np.stack([w[0] for w in group]), self._body.fixed)
            mask = _pad_batch(np.stack([w[1] for w in group]), self._body.fixed)
            results = self._body.run({"rows": rows, "mask": mask})
            ctc = results[1] if len(results) > 1 else None
            out += [Encoded(results[0][i], None if ctc is None else ctc[i]) for i in range(len(group))]
        return out


def _batches(count: int) -> list[tuple[int, int]]:
    """(first, size) of the calls for ``count`` items: up to the largest fixed batch at a time."""
    most = BATCHES[-1]
    return [(first, min(most, count - first)) for first in range(0, count, most)]


def _pad_batch(batch: Floats, fixed: bool) -> Floats:
    """Repeat the last item up to the next fixed batch size, where sizes must be fixed."""
    if not fixed:
        return batch
    size = next(b for b in BATCHES if b >= len(batch))
    return np.concatenate([batch, np.repeat(batch[-1:], size - len(batch), 0)]) if size > len(batch) else batch
