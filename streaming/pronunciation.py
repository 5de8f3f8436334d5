"""How words are spoken: letters → classes of the phone head, by a small convolutional net.

The net is one .npz file beside the model (``manifest.encoder.phones.pronunciation``)::

    letters                string: the letters it knows, all else in a word is left out
    names                  strings [classes]: the phones, for people
    embedding              [letters + 2, e]: of the word's start, of each letter, of the word's end
    convolution.0.weight   [d, e, k], .bias [d]; then convolution.1 … [d, d, k]; k odd, a word stands between zeros
    out.weight             [slots * (classes + 1), d], .bias: for each place of the word several slots
    words                  uint8 [bytes], may be missing: the words that the model should know how to spell, as
                           engines/lexicon.py packs them

Numbers are float16 or float32 and computed as float32. A slot says a phone or, by the last class, nothing. As in CTC,
equal slots beside each other are one phone and two need a silent slot between them.

Contract: a word's phones depend on that word alone, bit for bit.
"""

import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from engines.lexicon import Lexicon
from engines.manifest import ManifestError

Floats = npt.NDArray[np.float32]

WORDS: Final = 50_000
"""Words whose phones are kept; the one not asked for the longest goes first."""
_DAMAGED: Final = (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What NumPy and zipfile raise for a damaged archive: a wrong header or array (ValueError, BadZipFile), cut data
(EOFError, zlib.error), an unknown compression (NotImplementedError), a member that says it is encrypted (RuntimeError).
"""


class Pronunciation:
    """Phones of words. Thread-safe."""

    def __init__(
        self,
        letters: str,
        names: Sequence[str],
        embedding: Floats,
        convolutions: Sequence[tuple[Floats, Floats]],
        out: tuple[Floats, Floats],
        lexicon: Lexicon | None = None,
    ) -> None:
        """The fields of the file, of agreeing shapes; each convolution and ``out`` with its bias."""
        self.names = tuple(names)
        self.lexicon = lexicon
        """The words that the model should know how to spell, where the file tells them."""
        self._letters = {letter: i + 1 for i, letter in enumerate(letters)}
        self._embedding = embedding
        # [k, in, out]: a product for each neighbour. One product of all would be large enough for the BLAS to share it
        # among threads, and to wait for them on a busy machine.
        self._convolutions = [(np.ascontiguousarray(weight.transpose(2, 1, 0)), bias) for weight, bias in convolutions]
        self._out, self._out_bias = np.ascontiguousarray(out[0].T), out[1]
        self._word = lru_cache(WORDS)(self._spell)

    @classmethod
    def load(cls, path: Path, classes: int) -> "Pronunciation":
        """Read a .npz file for a head of ``classes`` phones.

        Raises:
            ManifestError: the file is no such net; the message names the field. It is a ValueError.
            OSError: it cannot be read.
        """
        fields = _Fields(path, _arrays(path))
        letters = str(fields.strings("letters", 0))
        if not letters or len(set(letters)) != len(letters):
            raise fields.error("letters", "each letter once, at least one, expected")
        names = [str(name) for name in fields.strings("names", 1)]
        if len(names) != classes:
            raise fields.error("names", f"{len(names)} phones, the head has {classes}")
        embedding = fields.floats("embedding", len(letters) + 2, None)
        convolutions: list[tuple[Floats, Floats]] = []
        width: int | None = None
        while not convolutions or fields.has(f"convolution.{len(convolutions)}.weight"):
            name = f"convolution.{len(convolutions)}"
            weight = fields.floats(f"{name}.weight", width, embedding.shape[1] if width is None else width, None)
            if weight.shape[2] % 2 == 0:
                raise fields.error(f"{name}.weight", f"odd width expected, found {weight.shape[2]}")
            width = len(weight)
            convolutions.append((weight, fields.floats(f"{name}.bias", width)))
        out = fields.floats("out.weight", None, width)
        if len(out) % (classes + 1):
            raise fields.error("out.weight", f"{len(out)} rows, no multiple of {classes + 1}")
        bias = fields.floats("out.bias", len(out))
        lexicon = fields.words("words") if fields.has("words") else None
        fields.end()
        return cls(letters, names, embedding, convolutions, (out, bias), lexicon)

    def of(self, words: Iterable[str]) -> tuple[int, ...]:
        """The phones of ``words``, one word after the other. One without a known letter has none."""
        return tuple(phone for word in words for phone in self._word(self._known(word)))

    def _known(self, word: str) -> str:
        return "".join(letter for letter in word.lower() if letter in self._letters)

    def _spell(self, word: str) -> tuple[int, ...]:
        """The phones of a word of known letters."""
        if not word:
            return ()
        places = [0, *(self._letters[letter] for letter in word), len(self._embedding) - 1]
        y = self._embedding[places]
        for i, (weight, bias) in enumerate(self._convolutions):
            half = len(weight) // 2
            padded = np.zeros((len(y) + 2 * half, y.shape[1]), np.float32)
            padded[half : half + len(y)] = y
            found = padded[: len(y)] @ weight[0]
            for at in range(1, len(weight)):
                found += padded[at : at + len(y)] @ weight[at]
            found = np.maximum(found + bias, np.float32(0))
            y = y + found if i else found
        blank = len(self.names)
        slots: list[int] = (y @ self._out + self._out_bias).reshape(-1, blank + 1).argmax(axis=1).tolist()
        return tuple(phone for phone, _ in groupby(slots) if phone != blank)


class _Fields:
    """The arrays of a file, each asked for by what it must be."""

    def __init__(self, path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._path, self._arrays = path, arrays
        self._seen: set[str] = set()

    def error(self, name: str, message: str) -> ManifestError:
        return ManifestError(f"{self._path}: {name}: {message}")

    def has(self, name: str) -> bool:
        return name in self._arrays

    def strings(self, name: str, dimensions: int) -> npt.NDArray[np.str_]:
        array = self._get(name)
        if array.dtype.kind != "U" or array.ndim != dimensions:
            raise self.error(name, f"strings of {dimensions} dimensions expected, found {array.dtype} {array.shape}")
        return array

    def floats(self, name: str, *shape: int | None) -> Floats:
        """Finite numbers of the ``shape``, in which None is any length but 0."""
        array = self._get(name)
        fits = array.ndim == len(shape) and all(
            found == length if length is not None else found > 0
            for found, length in zip(array.shape, shape, strict=True)
        )
        if array.dtype.name not in ("float16", "float32") or not fits:
            wanted = ", ".join("n" if length is None else str(length) for length in shape)
            raise self.error(name, f"float16 or float32 [{wanted}] expected, found {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise self.error(name, "not all numbers are finite")
        return np.ascontiguousarray(array, dtype=np.float32)

    def words(self, name: str) -> Lexicon:
        array = self._get(name)
        if array.dtype != np.uint8 or array.ndim != 1:
            raise self.error(name, f"uint8 [bytes] expected, found {array.dtype} {array.shape}")
        try:
            return Lexicon.unpack(array.tobytes())
        except ValueError as error:
            raise self.error(name, str(error)) from None

    def end(self) -> None:
        """All that was to be read has been."""
        for name in self._arrays:
            if name not in self._seen:
                raise self.error(name, "unknown field")

    def _get(self, name: str) -> npt.NDArray[Any]:
        if name not in self._arrays:
            raise self.error(name, "missing")
        self._seen.add(name)
        return self._arrays[name]


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz file by name. Raises ManifestError: it is none."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    with path.open("rb") as file:
        try:
            stored: Any = np.load(file, allow_pickle=False)
        except _DAMAGED as error:
            raise ManifestError(f"{path}: no .npz file ({error})") from None
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ManifestError(f"{path}: no .npz file")
        for name in stored.files:
            try:
                array = cast("npt.NDArray[Any] | bytes", stored[name])
            except _DAMAGED as error:
                raise ManifestError(f"{path}: {name}: cannot be read ({error})") from None
            if isinstance(array, bytes):
                raise ManifestError(f"{path}: {name}: no array")
            arrays[name] = array
    return arrays
