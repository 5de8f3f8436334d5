"""Embedding rows of a speaking model: text ids, codes and control ids → vectors of the talker's and predictor's width.

The files are mapped, not read: a model with 152 000 text rows touches only those it speaks.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.files import load_array
from engines.manifest import ManifestError

Floats = npt.NDArray[np.float32]


class Table:
    """A matrix of float rows, in a .npy file or in memory; rows come out as float32."""

    def __init__(self, rows: Path | npt.NDArray[Any]) -> None:
        """
        Raises:
            ManifestError: no float matrix.
        """
        self._rows: npt.NDArray[Any] = load_array(rows, mapped=True) if isinstance(rows, Path) else rows
        if self._rows.ndim != 2 or self._rows.dtype.kind != "f":
            raise ManifestError(f"{_named(rows)}: {self._rows.dtype} {self._rows.shape} is no matrix of floats")
        self.size: int = self._rows.shape[0]
        self.width: int = self._rows.shape[1]

    def matrix(self) -> npt.NDArray[Any]:
        """All rows, as they lie: float16 or float32 [size, width]."""
        return self._rows

    def __call__(self, ids: Sequence[int]) -> Floats:
        """float32 [n, width]."""
        return np.asarray(self._rows[np.asarray(ids, dtype=np.int64)], dtype=np.float32)


class CodeTable(Table):
    """Rows of the talker's vocabulary (codes of codebook 0 and control ids), then of the codes of codebooks 1 ….

    Code c of codebook g ≥ 1 is row ``vocabulary + (g − 1) · entries + c``.
    """

    def __init__(self, rows: Path | npt.NDArray[Any], *, vocabulary: int, entries: int, codebooks: int) -> None:
        """
        Raises:
            ManifestError: no float matrix of so many rows.
        """
        super().__init__(rows)
        self.vocabulary, self.entries, self.codebooks = vocabulary, entries, codebooks
        need = vocabulary + (codebooks - 1) * entries
        if self.size != need:
            raise ManifestError(f"{_named(rows)}: {self.size} rows, the manifest's dimensions make {need}")

    def index(self, codebook: int, code: int) -> int:
        """The row of a code."""
        return code if codebook == 0 else self.vocabulary + (codebook - 1) * self.entries + code

    def frame(self, codes: Sequence[int]) -> Floats:
        """The sum of a frame's rows: float32 [width]. Codes of all codebooks, in order."""
        return self([self.index(g, code) for g, code in enumerate(codes)]).sum(axis=0)


class ProjectedCodeTable(CodeTable):
    """The rows of a code table through a linear layer. A row is computed each time it is asked for: that is next to
    nothing beside what the model then does with it, and all rows at once are 10 MB of a small model, 130 of a large
    one."""

    def __init__(self, table: CodeTable, weight: Floats, bias: Floats | None) -> None:
        """``weight``: [the table's width, width]; ``bias``: [width] or None."""
        super().__init__(table.matrix(), vocabulary=table.vocabulary, entries=table.entries, codebooks=table.codebooks)
        self.width, self._weight, self._bias = weight.shape[1], weight, bias

    def matrix(self) -> Floats:
        """All rows, computed anew: float32 [size, width]."""
        rows: Floats = self._rows.astype(np.float32) @ self._weight
        return rows if self._bias is None else rows + self._bias

    def __call__(self, ids: Sequence[int]) -> Floats:
        """float32 [n, width]."""
        # Row by row: a product of several rows rounds differently than that of one.
        rows = np.stack([row @ self._weight for row in super().__call__(ids)])
        return rows if self._bias is None else rows + self._bias


def _named(rows: Path | npt.NDArray[Any]) -> str:
    return str(rows) if isinstance(rows, Path) else "code rows"
