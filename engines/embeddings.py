"""The token embeddings of a GGUF, read where they lie."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

from engines.llama import GgufError

Floats = npt.NDArray[np.float32]


class EmbeddingTable:
    """The token embeddings of a GGUF, dequantised a row at a time (the whole table in float32 can be 600 MB)."""

    def __init__(self, path: Path) -> None:
        reader = gguf.GGUFReader(path)
        tensor = next((t for t in reader.tensors if t.name == "token_embd.weight"), None)
        if tensor is None:
            raise GgufError(f"{path} holds no token_embd.weight")
        self._type = tensor.tensor_type
        self._data: npt.NDArray[Any] = tensor.data  # memory-mapped, [vocabulary, bytes or values]

    def rows(self, tokens: Sequence[int]) -> Floats:
        """Embeddings of ``tokens``: float32 [n, width]."""
        picked = np.ascontiguousarray(self._data[np.asarray(tokens, dtype=np.int64)])
        if self._type == gguf.GGMLQuantizationType.F32:
            return picked.astype(np.float32, copy=False)
        return gguf.quants.dequantize(picked, self._type).astype(np.float32, copy=False)
