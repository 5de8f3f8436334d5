"""The code predictor as one graph: a call makes the later codes of a frame, draws included
(export/trace/frame_graph.py).

Frames that wait at the same moment share a call; each is what it would be alone, because the graph rounds row by row. A
draw is that of ``codec.sampling.draw``, in float32: the same numbers are used up, one a code.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from codec.predictor import Entry, FrameStart
from codec.sampling import Sampling, generator
from engines.manifest import ManifestError
from engines.onnx import CPU, Graph, GraphError, ProviderError

Floats = npt.NDArray[np.float32]

_LOG: Final = logging.getLogger(__name__)

_MOST: Final = 8
"""How many frames share one call: a batch of eight costs a processor about as much as eight calls."""
_CARD_MOST: Final = 64
"""How many share one call on a card, which mostly starts kernels, be the batch small or large."""
_BELOW_ONE: Final = np.nextafter(np.float32(1), np.float32(0))


class FrameGraph:
    """Not thread-safe: the lane calls in."""

    def __init__(self, graph: Graph, entry: Entry) -> None:
        """
        Raises:
            ManifestError: the graph is not of this form.
        """
        needed = {"hidden", "first", "rows", "uniform", "temperature", "top_p", "top_k"}
        if set(graph.inputs) != needed or graph.outputs != ("codes",):
            raise ManifestError(f"{graph.path}: takes {', '.join(graph.inputs)}, not {', '.join(sorted(needed))}")
        self._graph, self._entry = graph, entry
        self._draws = entry.rows.codebooks - 1
        self._most = _MOST if graph.provider == CPU else _CARD_MOST
        graph.hold("rows", entry.rows.matrix())  # A card would copy 60 MB and more at each call.

    @classmethod
    def on_cuda(cls, path: Path, entry: Entry) -> Self | None:
        """The graph ``path`` on CUDA. None where that does not run it, which the log tells: then llama.cpp does."""
        try:
            made = cls(Graph(path, threads=1, provider="cuda"), entry)
            made.run([FrameStart(np.zeros(entry.width, np.float32), 0, Sampling(greedy=True), generator(0, 0))])
        except (GraphError, ProviderError) as error:
            _LOG.warning("llama.cpp makes frames, because CUDA cannot run them as one graph: %s", error)
            return None
        return made

    def run(self, starts: Sequence[FrameStart]) -> list[list[int]]:
        """All codes of each frame, code 0 included."""
        frames: dict[int, list[int]] = {}
        alike: dict[int, list[int]] = {}
        for place, start in enumerate(starts):
            alike.setdefault(self._top_k(start), []).append(place)
        for top_k, places in alike.items():
            for first in range(0, len(places), self._most):
                some = places[first : first + self._most]
                frames.update(zip(some, self._call([starts[place] for place in some], top_k), strict=True))
        return [frames[place] for place in range(len(starts))]

    def _top_k(self, start: FrameStart) -> int:
        entries = self._entry.rows.entries
        return min(start.sampling.predictor_top_k or entries, entries)

    def _call(self, starts: Sequence[FrameStart], top_k: int) -> list[list[int]]:
        entry = self._entry
        (codes,) = self._graph.run({
            "hidden": np.stack([entry.project(start.hidden) for start in starts]),
            "first": entry.rows([start.code for start in starts]),
            "uniform": np.stack([self._uniform(start) for start in starts]),
            "temperature": np.array([[start.sampling.predictor_temperature] for start in starts], np.float32),
            "top_p": np.array([[start.sampling.predictor_top_p] for start in starts], np.float32),
            "top_k": np.array([top_k], np.int64),
        })  # fmt: skip
        return [[start.code, *map(int, row)] for start, row in zip(starts, codes, strict=True)]

    def _uniform(self, start: FrameStart) -> Floats:
        """One number a draw; zeros draw the likeliest."""
        if start.sampling.greedy:
            return np.zeros(self._draws, np.float32)
        return np.minimum(start.random.random(self._draws).astype(np.float32), _BELOW_ONE)
