"""The prepared script: sentences as they are written, and their phonemes in two accents, in one small file.

A sentence is aligned in an accent where its written words, its spoken ones and the groups of its phonemes correspond
one to one, so that it is known when each word is said.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from training.speech.sounds import SILENT, SPACE, VOCABULARY, Sounds, said

ACCENTS: Final = "en-us", "en-gb"
MOST: Final = 320
"""Phonemes of a line. Said at the fastest speed, more than these last longer than the 16 s that a row holds."""
_LEAST: Final = 2
"""Phonemes of a line at least: a sound and its mark."""
_SYMBOLS: Final = {token: symbol for symbol, token in VOCABULARY.items()}
_COLUMNS: Final = "tokens", "ends", "aligned"


@dataclass(frozen=True)
class Script:
    """Sentences. texts: [S]. The other fields have an array for each accent. tokens: uint8, those of all sentences in a
    row; ends: int64 [S], where each sentence's end; aligned: bool [S]."""

    texts: list[str]
    tokens: tuple[NDArray[np.uint8], ...]
    ends: tuple[NDArray[np.int64], ...]
    aligned: tuple[NDArray[np.bool_], ...]

    def line(self, sentence: int, accent: int) -> NDArray[np.uint8]:
        """The phonemes of one sentence, without pads."""
        ends = self.ends[accent]
        return self.tokens[accent][ends[sentence - 1] if sentence else 0 : ends[sentence]]

    def sounds(self, sentence: int) -> str:
        """A sentence as the talker reads it, whoever says it: its American phonemes, without the space before them."""
        return "".join(_SYMBOLS[token] for token in self.line(sentence, 0).tolist())

    def save(self, path: Path) -> None:
        """Write the file that `load_scripts` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {f"{name}{i}": column for name in _COLUMNS for i, column in enumerate(getattr(self, name))}
        np.savez_compressed(path, texts=np.frombuffer("\n".join(self.texts).encode(), np.uint8), **columns)


def load_scripts(paths: Sequence[Path]) -> Script:
    """All sentences of some files."""
    texts: list[str] = []
    parts: dict[str, list[NDArray[Any]]] = {f"{name}{i}": [] for name in _COLUMNS for i in range(len(ACCENTS))}
    for path in paths:
        with np.load(path) as z:
            texts += z["texts"].tobytes().decode().split("\n")
            for i in range(len(ACCENTS)):
                before = sum(len(tokens) for tokens in parts[f"tokens{i}"])
                parts[f"tokens{i}"].append(z[f"tokens{i}"])
                parts[f"ends{i}"].append(z[f"ends{i}"] + before)
                parts[f"aligned{i}"].append(z[f"aligned{i}"])
    accents = range(len(ACCENTS))
    return Script(texts, **{name: tuple(np.concatenate(parts[f"{name}{i}"]) for i in accents) for name in _COLUMNS})


def groups(tokens: Iterable[int]) -> list[int]:
    """Where each word begins: at the first token that is a sound, or at a mark before it, after a space or at the
    start."""
    starts: list[int] = []
    begin, sounds = 0, False
    for i, token in enumerate([*tokens, SPACE]):
        if token == SPACE:
            if sounds:
                starts.append(begin)
            begin, sounds = i + 1, False
        elif token not in SILENT:
            sounds = True
    return starts


def _words(text: str) -> int:
    """How many words a text has; 0 where something stands alone in it that is no word."""
    words = text.split()
    return len(words) if all(any(c.isalnum() for c in w) for w in words) else 0


def prepared(lines: Iterable[str], sounds: Sounds) -> tuple[Script, int]:
    """The script of some written lines, and how many lines were left out because they are too short or too long or have
    nothing to say."""
    texts = [text for line in lines if (text := line.strip())]
    read = [[sounds.tokens(text, accent) for accent in ACCENTS] for text in texts]
    fits = [all(_LEAST <= len(row) <= MOST and groups(row) for row in rows) for rows in read]
    kept = [text for text, fit in zip(texts, fits, strict=True) if fit]
    counts = [_words(text) if _words(text) == _words(said(text)) else 0 for text in kept]
    columns = list(zip(*(rows for rows, fit in zip(read, fits, strict=True) if fit), strict=True))
    script = Script(
        kept,
        tuple(np.frombuffer(b"".join(map(bytes, column)), np.uint8) for column in columns),
        tuple(np.cumsum([len(row) for row in column]) for column in columns),
        tuple(np.array([0 < n == len(groups(r)) for n, r in zip(counts, c, strict=True)], np.bool_) for c in columns),
    )
    return script, len(texts) - len(kept)
