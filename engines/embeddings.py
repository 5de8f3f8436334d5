"""The token embeddings of a GGUF, read from the file row by row.

The whole table in float32 can be 600 MB. It is not mapped either: llama.cpp maps the file already, and pages that two
mappings have touched count twice (78 MB after 45 s of hearing at 0.6B dimensions, 64 KiB for each new token).
"""

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from engines.llama import GgufError

Floats = npt.NDArray[np.float32]


class EmbeddingTable:
    """Rows of ``token_embd.weight``, dequantised. Thread-safe. Holds the file open until ``close``."""

    def __init__(self, path: Path) -> None:
        """Open the table of the GGUF ``path``.

        Raises:
            GgufError: it holds none, or cannot be read.
        """
        try:
            tensors = gguf.GGUFReader(path).tensors
        except Exception as error:  # numpy's, and those of the file system
            raise GgufError(f"{path}: no GGUF file ({error})") from error
        tensor = next((t for t in tensors if t.name == "token_embd.weight"), None)
        if tensor is None:
            raise GgufError(f"{path} holds no token_embd.weight")
        self._type, self._offset = tensor.tensor_type, int(tensor.data_offset)
        self._width = int(tensor.shape[0])
        # data: [vocabulary, values, or bytes where they are quantised]
        self._count, self._row, self._dtype = len(tensor.data), int(tensor.data.strides[0]), tensor.data.dtype
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, os.close, self._file)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._finalizer()

    def rows(self, tokens: Sequence[int]) -> Floats:
        """Embeddings of ``tokens``: float32 [n, width].

        Raises:
            IndexError: a token outside the vocabulary.
            GgufError: the file is shorter than it was, or the table is closed.
        """
        if not tokens:  # gguf cannot dequantise none
            return np.empty((0, self._width), np.float32)
        data = b"".join([self._read(int(token)) for token in tokens])
        picked = np.frombuffer(data, self._dtype).reshape(len(tokens), self._row // self._dtype.itemsize)
        if self._type == gguf.GGMLQuantizationType.F32:
            return picked.astype(np.float32)
        return gguf.quants.dequantize(picked, self._type).astype(np.float32, copy=False)

    def _read(self, token: int) -> bytes:
        if not 0 <= token < self._count:
            raise IndexError(f"token {token} lies outside 0…{self._count - 1}")
        with self._lock:  # one file position
            if not self._finalizer.alive:
                raise GgufError("the embedding table is closed")
            os.lseek(self._file, self._offset + token * self._row, os.SEEK_SET)
            data = os.read(self._file, self._row)
        if len(data) != self._row:
            raise GgufError(f"row {token} of the embedding table lies behind the end of the file")
        return data
