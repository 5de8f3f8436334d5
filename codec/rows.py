"""Embedding rows of a speaking model: text ids, codes and control ids → vectors of the talker's and predictor's width.

The files are mapped, not read: a model with 152 000 text rows touches only those it speaks.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engines.files import load_array
from engines.manifest import ManifestError

Floats = npt.NDArray[np.float32]

_BLOCK: Final = 1024
"""Rows that are computed at once: all at once would need twice the memory of the table for a moment, and keep it."""


class Table:
    """A matrix of float rows, in a .npy file or in memory; rows come out as float32."""

    def __init__(self, rows: Path | Floats) -> None:
        """
        Raises:
            ManifestError: no float matrix.
        """
        self._rows: npt.NDArray[Any] = load_array(rows, mapped=True) if isinstance(rows, Path) else rows
        if self._rows.ndim != 2 or self._rows.dtype.kind != "f":
            raise ManifestError(f"{_named(rows)}: {self._rows.dtype} {self._rows.shape} is no matrix of floats")
        self.values: npt.NDArray[Any] = self._rows
        """The matrix as it lies, float16 or float32."""
        self.size: int = self._rows.shape[0]
        self.width: int = self._rows.shape[1]

    def __call__(self, ids: Sequence[int]) -> Floats:
        """float32 [n, width]."""
        return np.asarray(self._rows[np.asarray(ids, dtype=np.int64)], dtype=np.float32)


class CodeTable(Table):
    """Rows of the talker's vocabulary (codes of codebook 0 and control ids), then of the codes of codebooks 1 ….

    Code c of codebook g ≥ 1 is row ``vocabulary + (g − 1) · entries + c``.
    """

    def __init__(self, rows: Path | Floats, *, vocabulary: int, entries: int, codebooks: int) -> None:
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

    def through(self, weight: Floats, bias: Floats | None) -> "CodeTable":
        """``rows @ weight + bias``, in memory."""
        rows = np.empty((self.size, weight.shape[1]), np.float32)
        for first in range(0, self.size, _BLOCK):
            part = rows[first : first + _BLOCK]
            np.matmul(self._rows[first : first + _BLOCK].astype(np.float32), weight, out=part)
            if bias is not None:
                part += bias
        return CodeTable(
            rows,
            vocabulary=self.vocabulary,
            entries=self.entries,
            codebooks=self.codebooks,
        )

    def frame(self, codes: Sequence[int]) -> Floats:
        """The sum of a frame's rows: float32 [width]. Codes of all codebooks, in order."""
        return self([self.index(g, code) for g, code in enumerate(codes)]).sum(axis=0)


def _named(rows: Path | Floats) -> str:
    return str(rows) if isinstance(rows, Path) else "code rows"
