"""Reading the arrays and tokenizers of a model directory, with errors that always name the file.

Graphs are read by engines/onnx.py, decoders by engines/gguf.py.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engines.manifest import ManifestError


def load_array(path: Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """The array of a .npy file. If ``mapped``, it is read-only, and pages are read from the file when touched.

    Raises:
        ManifestError: there is no such file, or it holds no whole array.
    """
    try:
        loaded: Any = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except Exception as error:  # A broken header raises errors of many kinds, even tokenize's.
        raise ManifestError(f"{path}: no .npy file ({_first_line(error)})") from error
    array: npt.NDArray[Any] | np.lib.npyio.NpzFile = loaded
    if isinstance(array, np.lib.npyio.NpzFile):
        array.close()
        raise ManifestError(f"{path}: no .npy file (an archive)")
    return array


def load_floats(path: Path) -> npt.NDArray[np.float32]:
    """The array of a .npy file of floats, as contiguous float32 in memory.

    Raises:
        ManifestError: as ``load_array``, or the array holds something else than floats.
    """
    array = load_array(path)
    if array.dtype.kind != "f":
        raise ManifestError(f"{path}: floats expected, found {array.dtype}")
    return np.ascontiguousarray(array, dtype=np.float32)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json.

    Raises:
        ManifestError: there is no such file, or the tokenizers library cannot read it.
    """
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises no class of its own.
        raise ManifestError(f"{path}: no tokenizer.json ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
