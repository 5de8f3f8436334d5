"""Tensors in files of a checkpoint, read without torch and a part at a time."""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray


class CheckpointError(ValueError):
    """A checkpoint cannot be exported; the message names the file, the key of its configuration or the tensor."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Where one tensor lies: the file, the offset of its first byte, its dtype by the name of the safetensors format,
    and its shape."""

    file: Path
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many values the tensor has."""
        return math.prod(self.shape)

    def read(self) -> NDArray[np.float32]:
        """The values as float32, which holds those of all three formats that checkpoints use exactly."""
        return self.values(0, self.size).reshape(self.shape)

    def values(self, start: int, stop: int) -> NDArray[np.float32]:
        """Values ``start`` to ``stop``, exclusive, in the order of the file, as float32. The file is mapped only while
        they are read."""
        width = WIDTHS[self.dtype]
        offset = self.offset + start * np.dtype(width).itemsize
        raw = np.memmap(self.file, width, "r", offset, (stop - start,))
        if self.dtype == "BF16":
            return (raw.astype(np.uint32) << 16).view(np.float32)
        # This copies even float32, since a view would keep the file mapped.
        return np.array(raw, np.float32)

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows ``start`` to ``stop``, exclusive, where a row is whatever has the same index on the first axis."""
        inner = self.size // self.shape[0]
        return self.values(start * inner, stop * inner).reshape(stop - start, *self.shape[1:])

    def blocks(self, most: int) -> Iterator[NDArray[np.float32]]:
        """All rows, in blocks of about ``most`` values, and at least one row."""
        step = max(1, most * self.shape[0] // self.size)
        for start in range(0, self.shape[0], step):
            yield self.rows(start, min(start + step, self.shape[0]))


WIDTHS: Mapping[str, type[np.generic]] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
"""The formats that are read, each with the NumPy type of its values in the file."""


POINTER = b"version https://git-lfs"
"""How a file begins that Git LFS puts in place of the real one."""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of the checkpoint.

    Raises:
        CheckpointError: there is no such file, or it holds something else.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} holds no {path.name}: download it from where the others came") from None
    refuse_pointer(path, text)
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return cast("dict[str, Any]", value)


def refuse_pointer(path: Path, begin: bytes) -> None:
    """Refuse a file that Git LFS put in place of the real one.

    Raises:
        CheckpointError: ``begin``, the first bytes of ``path``, are those of such a file.
    """
    if begin.startswith(POINTER):
        raise CheckpointError(
            f"{path} is a pointer of Git LFS, not the file itself: run `git lfs pull` in its directory, or let "
            "`hearsay models pull` download it"
        )


def read_header(file: Path) -> dict[str, Stored]:
    """The tensors of one safetensors file, under its own names.

    Raises:
        CheckpointError: the file is a pointer of Git LFS.
        ValueError, KeyError, struct.error: the file is damaged.
        FileNotFoundError: there is no such file.
    """
    with file.open("rb") as stream:
        refuse_pointer(file, stream.read(len(POINTER)))
        stream.seek(0)
        (length,) = struct.unpack("<Q", stream.read(8))
        size = file.stat().st_size
        if length > size - 8:
            raise ValueError("it is cut off, or no safetensors file: its header ends beyond it")
        header = json.loads(stream.read(length))
    stored: dict[str, Stored] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if 8 + length + end > size:
            raise ValueError(f"it is cut off: tensor {name} ends beyond it")
        stored[name] = Stored(file, 8 + length + begin, entry["dtype"], tuple(entry["shape"]))
    return stored
