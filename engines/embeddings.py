"""The token embeddings of a GGUF, read from the file row by row.

The whole table would take up to 600 MB as float32, so it is not read at once. It is not mapped either: llama.cpp has
mapped the file already, and pages that two mappings touch count twice (78 MB after 45 s of hearing at 0.6B dimensions,
64 KiB for each new token).
"""

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gguf
import numpy as np
import numpy.typing as npt

from engines.llama import GgufError

Floats = npt.NDArray[np.float32]


KNOWN: Final = 1024
"""How many rows are kept, which take 4 MB at 0.6B dimensions: most texts use few tokens many times, and reading and
dequantising a row takes 0.05 ms."""


class EmbeddingTable:
    """The rows of ``token_embd.weight``, dequantised. Thread-safe. The file stays open until ``close``."""

    def __init__(self, path: Path) -> None:
        """Open the table of the GGUF ``path``.

        Raises:
            GgufError: the file has no such table, or cannot be read.
        """
        try:
            tensors = gguf.GGUFReader(path).tensors
        except Exception as error:  # gguf documents none: numpy's and the file system's come through.
            raise GgufError(f"{path}: no GGUF file ({error})") from error
        tensor = next((t for t in tensors if t.name == "token_embd.weight"), None)
        if tensor is None:
            raise GgufError(f"{path} holds no token_embd.weight")
        self._type, self._offset = tensor.tensor_type, int(tensor.data_offset)
        self._width = int(tensor.shape[0])
        # The data is [vocabulary, width] values, or [vocabulary, bytes] where they are quantised.
        self._count, self._row, self._dtype = len(tensor.data), int(tensor.data.strides[0]), tensor.data.dtype
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()
        self._known: dict[int, Floats] = {}
        self._finalizer = weakref.finalize(self, os.close, self._file)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._finalizer()

    def rows(self, tokens: Sequence[int]) -> Floats:
        """The embeddings of ``tokens``: float32 [n, width].

        Raises:
            IndexError: a token lies outside the vocabulary.
            GgufError: the file is shorter than it was, or the table is closed.
        """
        if not tokens:  # numpy cannot stack no rows.
            return np.empty((0, self._width), np.float32)
        return np.stack([self._dequantised(int(token)) for token in tokens])

    def _dequantised(self, token: int) -> Floats:
        known = self._known.get(token)
        if known is not None:
            return known
        picked = np.frombuffer(self._read(token), self._dtype)[None]
        quantised = self._type != gguf.GGMLQuantizationType.F32
        row: Floats = (gguf.quants.dequantize(picked, self._type) if quantised else picked)[0].astype(np.float32)
        with self._lock:
            if len(self._known) >= KNOWN:
                del self._known[next(iter(self._known))]
            self._known[token] = row
        return row

    def _read(self, token: int) -> bytes:
        if not 0 <= token < self._count:
            raise IndexError(f"token {token} lies outside 0…{self._count - 1}")
        with self._lock:  # The file has one position for all threads.
            if not self._finalizer.alive:
                raise GgufError("the embedding table is closed")
            os.lseek(self._file, self._offset + token * self._row, os.SEEK_SET)
            data = os.read(self._file, self._row)
        if len(data) != self._row:
            raise GgufError(f"row {token} of the embedding table lies behind the end of the file")
        return data
