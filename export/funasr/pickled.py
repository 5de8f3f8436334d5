"""Finding the tensors in a ``model.pt`` without torch.

A file of ``torch.save`` is a zip archive whose members are not compressed: ``data.pkl`` describes the tensors, and each
storage is a member of its own. Since loading a pickle can call any function, the reader here knows only the few names
that tensors are made of, and refuses a pickle that asks for another.
"""

import pickle
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from export.checkpoint import CheckpointError, Stored

DTYPES = {"FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "LongStorage": "I64"}
"""torch's storage classes, with the names of their dtypes in the safetensors format."""
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}
"""How many bytes a value has in each dtype."""
WRAPPERS = ("state_dict", "model_state_dict", "model")
"""The keys under which training programs store the tensors (funasr, models/fun_asr_nano/checkpoint_utils.py)."""
MALFORMED = (AttributeError, TypeError, ValueError)
"""The errors that a pickle with another structure than torch's leads to."""
LOCAL_HEADER = 30
"""How many bytes the local header of a zip member has before the member's name (the ZIP format, 4.3.7)."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage: the key of its member in the archive, and its dtype by the name of the safetensors format."""

    key: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor as the pickle describes it; ``offset`` and ``strides`` count values."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def tensor(storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Tensor:
    """Stands in for ``torch._utils._rebuild_tensor_v2``, which the pickle calls with these arguments."""
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def parameter(value: Tensor, *_: Any) -> Tensor:
    """Stands in for ``torch._utils._rebuild_parameter``, which the pickle calls with a tensor."""
    return value


class Reader(pickle.Unpickler):
    """A reader of pickles that accepts descriptions of tensors and containers of them, and nothing else."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): tuple,
            ("torch._utils", "_rebuild_tensor_v2"): tensor,
            ("torch._utils", "_rebuild_parameter"): parameter,
            **{("torch", name): dtype for name, dtype in DTYPES.items()},
        }
        if (module_name, global_name) not in known:
            raise pickle.UnpicklingError(f"asks for {module_name}.{global_name}, which is no part of a tensor")
        return known[module_name, global_name]

    def persistent_load(self, pid: Any, /) -> Storage:
        kind, dtype, key = pid[:3]
        if kind != "storage" or not isinstance(dtype, str):
            raise pickle.UnpicklingError(f"asks for a {kind!r}")
        return Storage(str(key), dtype)


def read_tensors(file: Path) -> dict[str, Stored]:
    """Where every tensor of ``file`` lies, under its own names without the prefix ``module.``.

    Raises:
        CheckpointError: there is no such file, ``torch.save`` did not write it, or it holds more than tensors.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = {info.filename.partition("/")[2]: info for info in archive.infolist()}
            with archive.open(members["data.pkl"]) as stream:
                content = Reader(stream).load()
        while isinstance(content, dict) and (
            inner := [content[k] for k in WRAPPERS if isinstance(content.get(k), dict)]
        ):
            content = inner[0]
        found = {str(k).removeprefix("module."): v for k, v in dict(content).items() if isinstance(v, Tensor)}
        with file.open("rb") as raw:
            return {name: stored(file, raw, name, value, members) for name, value in found.items()}
    except FileNotFoundError:
        raise CheckpointError(f"{file.parent} holds no {file.name}") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError, LookupError, EOFError, *MALFORMED) as error:
        raise CheckpointError(f"{file}: not a file of tensors by torch.save ({error})") from None


def stored(file: Path, raw: Any, name: str, value: Tensor, members: dict[str, zipfile.ZipInfo]) -> Stored:
    """Where the tensor ``value`` lies in ``file``.

    Raises:
        CheckpointError: it is compressed, cut off or not contiguous.
    """
    info = members[f"data/{value.storage.key}"]
    raw.seek(info.header_offset + LOCAL_HEADER - 4)
    begin = info.header_offset + LOCAL_HEADER + sum(int.from_bytes(raw.read(2), "little") for _ in range(2))
    step, strides = 1, list[int]()
    for size in reversed(value.shape):
        strides.insert(0, step)
        step *= size
    size = SIZES[value.storage.dtype]
    tight = all(a == b for a, b, n in zip(value.strides, strides, value.shape, strict=True) if n > 1)
    if info.compress_type != zipfile.ZIP_STORED or not tight or (value.offset + step) * size > info.file_size:
        raise CheckpointError(f"{file}: tensor {name} is compressed, cut off or not contiguous")
    return Stored(file, begin + value.offset * size, value.storage.dtype, value.shape)
