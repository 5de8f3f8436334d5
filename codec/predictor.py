"""The code predictor: codebooks 1 … of a frame, one pass each, positions from 0 in every frame.

In go the talker's hidden state and the row of code 0, then the row of every code drawn; the logits of codebook g are
``heads[g − 1]`` times the state after the last norm (modeling_qwen3_tts.py:1276-1312). Frames of many pieces run side
by side, one llama.cpp call a pass. A sequence of the cache belongs to a place in the batch, not to a session: nothing
of a frame outlives it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from codec.rows import CodeTable, ProjectedCodeTable
from codec.sampling import Sampling, draw, draws
from engines.files import load_floats
from engines.gguf import Decoder, Rows
from engines.manifest import ManifestError
from engines.manifest import Predictor as PredictorSpec

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FrameStart:
    """The talker's part of a frame: ``hidden`` float32 [talker width] and code 0."""

    hidden: Floats
    code: int
    sampling: Sampling
    random: np.random.Generator


class Entry:
    """What goes into a predictor: rows of codes, and the talker's hidden state in its width."""

    def __init__(self, spec: PredictorSpec, directory: Path, code_rows: CodeTable) -> None:
        """``code_rows``: the talker's table, from which small models' rows are made.

        Raises:
            ManifestError: a file of the model is of another shape than the manifest says.
        """
        width = spec.decoder.width
        self.width = code_rows.width
        """Of the talker's hidden state."""
        self._weight = None if spec.weight is None else _floats(directory / spec.weight, (code_rows.width, width))
        self._bias = None if spec.bias is None else _floats(directory / spec.bias, (width,))
        if spec.rows is not None:
            rows = CodeTable(
                directory / spec.rows,
                vocabulary=code_rows.vocabulary,
                entries=code_rows.entries,
                codebooks=code_rows.codebooks,
            )
        elif self._weight is not None:
            rows = ProjectedCodeTable(code_rows, self._weight, self._bias)
        else:
            rows = code_rows
        if rows.width != width:
            raise ManifestError(f"{directory}: the predictor's rows are {rows.width} wide, expected {width}")
        self.rows = rows

    def project(self, hidden: Floats) -> Floats:
        """The talker's hidden state [talker width] in the predictor's width."""
        if self._weight is None:
            return hidden
        out: Floats = hidden @ self._weight
        return out if self._bias is None else out + self._bias


class FrameMaker(Protocol):
    """Makes the later codes of frames: a :class:`Predictor`, or a ``codec.frame_graph.FrameGraph``."""

    def run(self, starts: Sequence[FrameStart]) -> list[list[int]]:
        """All codes of each frame, code 0 included."""
        ...


class Predictor:
    """llama.cpp, a call a pass. Not thread-safe: the lane calls in."""

    def __init__(
        self, spec: PredictorSpec, directory: Path, decoder: Decoder, entry: Entry, *, together: bool = False
    ) -> None:
        """``together``: one product for all frames of a batch, which rounds differently than one for each.

        Raises:
            ManifestError: a file of the model is of another shape than the manifest says.
        """
        self._decoder, self._entry, self._together = decoder, entry, together
        self._rows = rows = entry.rows
        self._heads = _floats(directory / spec.heads, (rows.codebooks - 1, rows.entries, spec.decoder.width))
        self._sequences = [decoder.acquire() for _ in range(decoder.sequences)]

    def run(self, starts: Sequence[FrameStart]) -> list[list[int]]:
        """All codes of each frame, code 0 included."""
        frames: list[list[int]] = []
        for first in range(0, len(starts), len(self._sequences)):
            frames += self._batch(starts[first : first + len(self._sequences)])
        return frames

    def _batch(self, starts: Sequence[FrameStart]) -> list[list[int]]:
        frames = [[start.code] for start in starts]
        rows = [np.stack([self._entry.project(s.hidden), self._rows([s.code])[0]]) for s in starts]
        position = 0
        for g, head in enumerate(self._heads, 1):
            items = [
                Rows(sequence, position, part, len(part) - 1)
                for sequence, part in zip(self._sequences, rows, strict=False)
            ]
            outputs = self._decoder.outputs(items)
            position += len(rows[0])
            if self._together and len({start.sampling for start in starts}) == 1:
                sampling = starts[0].sampling
                codes = draws(
                    np.concatenate([output.hidden for output in outputs]) @ head.T,
                    [start.random for start in starts],
                    temperature=sampling.predictor_temperature,
                    top_k=sampling.predictor_top_k,
                    top_p=sampling.predictor_top_p,
                    greedy=sampling.greedy,
                )
                for frame, code in zip(frames, codes, strict=True):
                    frame.append(code)
                rows = self._rows([self._rows.index(g, code) for code in codes])[:, None]
                continue
            for start, frame, output in zip(starts, frames, outputs, strict=True):
                # Vector by vector: a product of the whole batch would round differently than one alone.
                logits: Floats = head @ output.hidden[0]
                frame.append(
                    draw(
                        logits,
                        start.random,
                        temperature=start.sampling.predictor_temperature,
                        top_k=start.sampling.predictor_top_k,
                        top_p=start.sampling.predictor_top_p,
                        greedy=start.sampling.greedy,
                    )
                )
            rows = [self._rows([self._rows.index(g, frame[g])]) for frame in frames]
        return frames


def _floats(path: Path, expected: tuple[int, ...]) -> Floats:
    array = load_floats(path)
    if array.shape != expected:
        raise ManifestError(f"{path}: shape {array.shape}, expected {expected}")
    return array
