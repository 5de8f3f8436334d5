"""The pronouncing dictionary: a gzip file of lines, sorted by their bytes, that is searched as it lies in memory.

A line is ``word<TAB>sounds``, then ``<TAB>+`` if the word is a common one, then ``<TAB>TAG=sounds`` for each other way
to read it.
A word stands in small letters, in other ones only where those are read differently ("Polish", "NASA"). A quarter of a
million Python strings would be 40 MB; the bytes are 5, and a search looks at 18 of its lines.
"""

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engines.manifest import ManifestError

MOST_BYTES: Final = 16 << 20
"""How many bytes of text are read; a longer file is not read to its end, so that a small archive cannot fill the
memory."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How a word is read: its usual ``sounds``, and the other ways by their tags.

    Tags: ``V`` as a verb, ``N`` as a noun, ``D`` as a past tense or participle, ``.`` before a mark. Sounds are written
    as codec/sounds/symbols.py says.
    """

    sounds: str
    common: bool = False
    """Whether it is one of the 26,000 most frequent words, which others are made of and which are shouted."""
    others: dict[str, str] = field(default_factory=dict[str, str])


class Dictionary:
    """Immutable, thread-safe."""

    def __init__(self, text: bytes) -> None:
        """``text``: the lines, sorted, each ended by a line feed."""
        self._text = text

    @classmethod
    def load(cls, path: Path) -> "Dictionary":
        """Read a dictionary's file: about 35 ms.

        Raises:
            ManifestError: it cannot be read, or holds more than ``MOST_BYTES``.
        """
        try:
            unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            text = unpacker.decompress(path.read_bytes(), MOST_BYTES)
        except (OSError, zlib.error) as error:
            raise ManifestError(f"{path}: the pronouncing dictionary cannot be read: {error}") from error
        if unpacker.unconsumed_tail:
            raise ManifestError(f"{path}: the pronouncing dictionary holds more than {MOST_BYTES} bytes")
        if not unpacker.eof or (text and not text.endswith(b"\n")):
            raise ManifestError(f"{path}: the pronouncing dictionary ends inside a line")
        return cls(text)

    def find(self, word: str) -> Entry | None:
        """The entry of ``word`` exactly as it is written."""
        key = word.encode() + b"\t"
        text, low, high = self._text, 0, len(self._text)
        while low < high:
            begin = text.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = text.index(b"\n", begin)
            found = text[begin : text.index(b"\t", begin, end) + 1]
            if found == key:
                sounds, *rest = text[begin + len(key) : end].decode().split("\t")
                return Entry(sounds, "+" in rest, dict(other.split("=", 1) for other in rest if other != "+"))
            if found < key:
                low = end + 1
            else:
                high = begin
        return None
