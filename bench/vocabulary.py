"""How rare the words of test clips are: counted in the text and the transcripts that the models are trained on."""

import io
import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.clips import Clip, read_index
from bench.row import NotMeasured
from bench.wer import normalize

MANY: Final = 50
"""Occurrences in the text from which a name is not rare."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z'’]*")
_SHORTEST: Final = 4
"""Letters of the shortest word that can be a keyterm."""


@dataclass(frozen=True, slots=True)
class Rare:
    """A word of a clip.

    Attributes:
        word: in lower case.
        clip: where it is said.
        trained: clips of the training shards that hold it.
        written: occurrences in the text corpus.
        name: whether it is written like a name (capital letter inside a sentence) where case is known.
    """

    word: str
    clip: Clip
    trained: int
    written: int
    name: bool


def rare_words(clips: Sequence[Clip], data: Path, most: int) -> list[Rare]:
    """The rarest words of ``clips``, names first, each of another clip, at most ``most``.

    A word counts as rare where no training clip holds it and the text holds it at most :data:`MANY` times (names) or
    never (other words).

    Raises:
        NotMeasured: no text or training shards below ``data``.
    """
    said = {word for clip in clips for word in _words(clip.text)}
    written, capital, small = _written(data, said)
    trained = _trained(data, said, {clip.file for clip in clips})
    found = list[Rare]()
    for clip in clips:
        cased = _capitals(clip.text)
        for word in sorted(_words(clip.text)):
            name = word in cased or (capital[word] > 0 and small[word] == 0)
            if trained[word] == 0 and written[word] <= (MANY if name else 0):
                found.append(Rare(word, clip, trained[word], written[word], name))
    found.sort(key=lambda rare: (not rare.name, rare.written, rare.word, rare.clip.file))
    chosen, words, files = list[Rare](), set[str](), set[str]()
    for rare in found:
        if rare.word not in words and rare.clip.file not in files and len(chosen) < most:
            chosen.append(rare)
            words.add(rare.word)
            files.add(rare.clip.file)
    return chosen


def _words(text: str) -> set[str]:
    """Words that can be keyterms: long enough, no possessives, which their own name would answer for."""
    stripped = (word.strip("'") for word in normalize(text))
    return {word for word in stripped if len(word) >= _SHORTEST and "'" not in word and word.isalpha()}


def _capitals(text: str) -> set[str]:
    """Words with a capital inside the sentences of a text that has small letters as well."""
    if not any(c.islower() for c in text) or not any(c.isupper() for c in text):
        return set()
    inner = re.findall(r"(?<=[a-z,;] )[A-Z][a-z]+", text)
    return {word.lower() for word in inner}


def _written(data: Path, wanted: set[str]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Occurrences of ``wanted`` in the text: all, with a capital inside a line, in small letters."""
    total, capital, small = Counter[str](), Counter[str](), Counter[str]()
    for line in _lines(data):
        for i, match in enumerate(_WORD.finditer(line)):
            word = match.group()
            plain = word.lower().replace("’", "'").strip("'")
            if plain in wanted:
                total[plain] += 1
                if word[0].islower():
                    small[plain] += 1
                elif i:
                    capital[plain] += 1
    return total, capital, small


def _lines(data: Path) -> Iterator[str]:
    paths = sorted((data / "text").glob("*.txt.xz"))
    if not paths:
        raise NotMeasured(f"{data}/text holds no *.txt.xz to count words in")
    for path in paths:
        with io.TextIOWrapper(lzma.open(path), encoding="utf-8") as lines:
            yield from lines


def _trained(data: Path, wanted: set[str], without: set[str]) -> Counter[str]:
    """Clips of the training shards that hold each word; ``without``: names of clips that do not count."""
    found = Counter[str]()
    shards: Iterable[Path] = sorted(p for p in (data / "speech").glob("*.tar") if "-test-" not in p.name)
    for shard in shards:
        for row in read_index(shard):
            if row["file"] not in without:
                found.update(set(normalize(str(row["text"]))) & wanted)
    return found
