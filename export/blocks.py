"""llama.cpp's number formats, written a block of rows at a time.

llama.cpp quantises only a whole file at once, which it wants in float32, on disk and in memory. Its function for rows
gives the same bytes and takes any number of rows, so here tensors stream through it block by block. Which format each
tensor of a mixture such as q4_k_m gets, llama.cpp alone decides. To learn it, its quantiser is run on a twin of the
decoder whose tensors have the same names but only two short rows each.
"""

import ctypes
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from export.stored import CheckpointError, Stored

if TYPE_CHECKING:
    import gguf

Floats = NDArray[np.float32]

VALUES = 1 << 22
"""How many values are converted at a time: 16 MB in float32, so that memory stays small beside a model's gigabytes."""

WORKERS = min(4, os.cpu_count() or 1)
"""How many threads convert blocks. Four is a choice: each holds a block in memory, and the disk soon limits."""

TWIN_WIDTH = 256
"""How many values a twin's row has: as many as share a scale in llama.cpp's largest blocks, so that all formats fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Stored):
    """A tensor of a GGUF, in any of llama.cpp's formats (``kind``)."""

    kind: "gguf.GGMLQuantizationType"

    @property
    def quantized(self) -> bool:
        """Whether the format is a quantised one, whose values share scales."""
        return self.kind.name not in ("F32", "F16", "BF16")

    def raw(self, start: int, stop: int) -> NDArray[np.uint8]:
        """The bytes of rows ``start`` to ``stop``, exclusive: uint8 [rows, bytes]."""
        row = packed_size(self.shape, self.kind) // self.shape[0]
        return np.fromfile(self.file, np.uint8, (stop - start) * row, offset=self.offset + start * row).reshape(-1, row)

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows ``start`` to ``stop``, exclusive, widened to float32."""
        import gguf

        values = gguf.quants.dequantize(self.raw(start, stop), self.kind)
        return values.astype(np.float32, copy=False).reshape(stop - start, *self.shape[1:])

    def read(self) -> NDArray[np.float32]:
        """The whole tensor, widened to float32."""
        return self.rows(0, self.shape[0])


def packed_size(shape: tuple[int, ...], kind: "gguf.GGMLQuantizationType") -> int:
    """How many bytes a tensor of ``shape`` takes in format ``kind``."""
    import gguf

    block, size = gguf.GGML_QUANT_SIZES[kind]
    return int(np.prod(shape)) // block * size


def packed(stored: Stored, kind: "gguf.GGMLQuantizationType", name: str) -> Iterator[bytes]:
    """Convert ``stored`` to format ``kind`` and yield its bytes, block after block. Messages call it ``name``.

    Raises:
        CheckpointError: a value is not finite, or too large for the format.
    """
    if isinstance(stored, Block) and stored.kind == kind:
        step = max(1, VALUES * stored.shape[0] // stored.size)
        for start in range(0, stored.shape[0], step):
            yield stored.raw(start, min(start + step, stored.shape[0])).tobytes()
        return
    pack = packer(kind)
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting = deque[Any]()
        for rows in stored.blocks(VALUES):
            waiting.append(pool.submit(pack, rows, name))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def packer(kind: "gguf.GGMLQuantizationType") -> Callable[[Floats, str], bytes]:
    """The function that converts rows, float32 [rows, values], to the bytes of format ``kind``."""
    import gguf

    if kind == gguf.GGMLQuantizationType.F32:
        return lambda rows, name: finite(rows, name).tobytes()
    if kind == gguf.GGMLQuantizationType.F16:
        return lambda rows, name: as_half(finite(rows, name), name).tobytes()
    block, size = gguf.GGML_QUANT_SIZES[kind]

    def pack(rows: Floats, name: str) -> bytes:
        rows = np.ascontiguousarray(finite(rows, name))
        made = np.empty(rows.size // block * size, np.uint8)
        count = quantizer()(
            int(kind), rows.ctypes.data, made.ctypes.data, 0, rows.size // rows.shape[-1], rows.shape[-1], None
        )
        if count != made.size:
            raise CheckpointError(f"tensor {name}: llama.cpp wrote {count} bytes as {kind.name}, not {made.size}")
        return made.tobytes()

    return pack


def finite(rows: Floats, name: str) -> Floats:
    """Return ``rows`` unchanged.

    Raises:
        CheckpointError: a value is not finite. The file is damaged then, and its rounded values would be noise.
    """
    if not np.isfinite(rows).all():
        raise CheckpointError(f"tensor {name} holds what is no number: the file is damaged, download it again")
    return rows


def as_half(values: Floats, name: str) -> NDArray[np.float16]:
    """``values`` as float16.

    Raises:
        CheckpointError: one is too large for it and would become infinite.
    """
    peak = float(np.abs(values).max(initial=0.0))
    if peak > float(np.finfo(np.float16).max):
        raise CheckpointError(f"tensor {name} reaches {peak:g}, beyond float16: choose another format")
    return values.astype(np.float16)


@cache
def quantizer() -> Any:
    """llama.cpp's function that quantises rows: ``ggml_quantize_chunk(type, from, to, start, rows, row length,
    importances)``."""
    import llama_cpp
    from llama_cpp._ctypes_extensions import load_shared_library

    library = load_shared_library("ggml-base", Path(llama_cpp.__file__).parent / "lib")
    function = library.ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip
    return function


def mixture(
    names: Mapping[str, int], quantization: str, begin: "Callable[[Path], gguf.GGUFWriter]"
) -> "dict[str, gguf.GGMLQuantizationType]":
    """The format that llama.cpp gives to each tensor of a quantised decoder, in the order of its files.

    Args:
        names: every tensor's name and how many axes it has.
        quantization: q8_0, q6_k or q4_k_m.
        begin: opens a GGUF and writes the decoder's description, but no tensors.

    Raises:
        CheckpointError: llama.cpp's quantiser fails.
    """
    import gguf

    with tempfile.TemporaryDirectory(prefix="hearsay-twin-") as folder:
        plain, made = Path(folder) / "plain.gguf", Path(folder) / "made.gguf"
        writer = begin(plain)
        for name, axes in names.items():
            writer.add_tensor(name, np.zeros((2, TWIN_WIDTH) if axes > 1 else (TWIN_WIDTH,), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        quantize(plain, made, quantization)
        reader = gguf.GGUFReader(made)
        types = {tensor.name: tensor.tensor_type for tensor in reader.tensors}
        del reader  # It maps the file, which some systems then would not delete.
    return types


def quantize(source: Path, target: Path, quantization: str) -> None:
    """Quantise the GGUF ``source`` into ``target`` by llama.cpp's ``llama_model_quantize``.

    Raises:
        CheckpointError: it fails; the message has the end of its log.
    """
    import llama_cpp

    types = {
        "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
        "q6_k": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
        "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    }
    LOG.clear()
    llama_cpp.llama_log_set(keep_log(), ctypes.c_void_p(0))
    parameters: Any = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = types[quantization]
    parameters.nthread = os.cpu_count() or 1
    call: Any = llama_cpp.llama_model_quantize
    status: int = call(os.fsencode(source), os.fsencode(target), ctypes.byref(parameters))
    if status:
        tail = b"".join(LOG).decode(errors="replace").strip().splitlines()[-3:]
        raise CheckpointError(f"llama.cpp's quantiser failed with {status}: {' / '.join(tail)}")


LOG: deque[bytes] = deque(maxlen=200)
"""The end of llama.cpp's log, for error messages."""


@cache
def keep_log() -> Any:
    """The callback that keeps llama.cpp's log off the terminal. llama.cpp keeps the pointer, so the callback is cached
    and lives as long as the process."""
    import llama_cpp

    @llama_cpp.llama_log_callback
    def keep(_level: int, text: bytes, _data: ctypes.c_void_p) -> None:
        LOG.append(text)

    return keep
