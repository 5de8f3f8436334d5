"""Tensors in files of a checkpoint, read without torch and a part at a time."""

import json
import math
import struct
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray


class CheckpointError(ValueError):
    """A checkpoint cannot be exported; the message names the file, the key of its configuration or the tensor."""


@contextmanager
def suspecting(source: Path) -> Generator[None]:
    """Read ``source`` as what strangers wrote: whatever its values make the reader raise says that they are wrong.

    Raises:
        CheckpointError: instead of such errors, which stay its cause.
    """
    try:
        yield
    except CheckpointError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise CheckpointError(
            f"{source} is damaged, or no checkpoint of its kind: a value in it is not what it should be "
            f"({type(error).__name__}: {error}); download it again, or pull the official one"
        ) from error


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


MOST_HEADER: Final = 100_000_000
"""Bytes of the longest header that the safetensors library reads, too."""

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
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no JSON ({error}): download it again") from None
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
        ValueError, struct.error: the file is damaged.
        FileNotFoundError: there is no such file.
    """
    with file.open("rb") as stream:
        refuse_pointer(file, stream.read(len(POINTER)))
        stream.seek(0)
        (length,) = struct.unpack("<Q", stream.read(8))
        size = file.stat().st_size
        if length > size - 8:
            raise ValueError("it is cut off, or no safetensors file: its header ends beyond it")
        if length > MOST_HEADER:
            raise ValueError(f"its header of {length} bytes is longer than the {MOST_HEADER} that the format allows")
        try:
            header = json.loads(stream.read(length))
        except RecursionError:
            raise ValueError("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    entries = cast("dict[str, Any]", header)
    entries.pop("__metadata__", None)
    found = {name: _stored(file, 8 + length, size, name, entry) for name, entry in entries.items()}
    ends = 8 + length
    for name, (begin, end) in sorted(((name, place) for name, (_, *place) in found.items()), key=lambda one: one[1]):
        if begin < ends:
            raise ValueError(f"tensor {name} overlaps another")
        ends = end
    return {name: stored for name, (stored, *_) in found.items()}


def _stored(file: Path, base: int, size: int, name: str, entry: Any) -> tuple[Stored, int, int]:
    """One tensor of a safetensors file of ``size`` bytes whose data begin at ``base``, and where it begins and ends.

    Raises:
        ValueError: the entry is not of the format, or leads out of the file.
    """
    known = cast("dict[str, Any]", entry) if isinstance(entry, dict) else dict[str, Any]()
    offsets, shape, dtype = known.get("data_offsets"), known.get("shape"), known.get("dtype")
    if not isinstance(dtype, str) or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise ValueError(f"tensor {name} has no dtype, shape and data_offsets of the format")
    begin, end = offsets
    if base + end > size:
        raise ValueError(f"it is cut off: tensor {name} ends beyond it")
    width = 4 if dtype == "U32" else np.dtype(WIDTHS[dtype]).itemsize if dtype in WIDTHS else None
    if begin > end or (width is not None and end - begin != width * math.prod(shape)):
        raise ValueError(f"tensor {name} of shape {shape} in {dtype} does not fit its {end - begin} bytes")
    return Stored(file, base + begin, dtype, tuple(shape)), base + begin, base + end


def _counts(value: Any) -> TypeGuard[list[int]]:
    """Whether ``value`` is a list of integers, none negative."""
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in cast("list[Any]", value))
