"""The prepared script: sentences as they are written, and their phonemes in two accents, in one small file.

A line of the text is `written<TAB>spoken`; what is spoken has its numbers in words. A sentence is aligned in an accent
where its written words, its spoken ones and the groups of its phonemes correspond one to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.speech.phonemes import SILENT, SPACE, Phonemes

ACCENTS = "en-us", "en-gb"
MOST = 320  # phonemes; more is longer than 16 seconds at any speed
_LEAST = 2
_COLUMNS = "tokens", "ends", "aligned"


@dataclass(frozen=True)
class Script:
    """texts, spoken [S]; for each accent: tokens uint8 of all sentences in a row, ends int64 [S], aligned bool [S]."""

    texts: list[str]
    spoken: list[str]
    tokens: tuple[NDArray[np.uint8], ...]
    ends: tuple[NDArray[np.int64], ...]
    aligned: tuple[NDArray[np.bool_], ...]

    def line(self, sentence: int, accent: int) -> NDArray[np.uint8]:
        """Phonemes of one sentence, without pads."""
        ends = self.ends[accent]
        return self.tokens[accent][ends[sentence - 1] if sentence else 0 : ends[sentence]]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        texts, spoken = (np.frombuffer("\n".join(lines).encode(), np.uint8) for lines in (self.texts, self.spoken))
        columns = {f"{name}{i}": column for name in _COLUMNS for i, column in enumerate(getattr(self, name))}
        np.savez_compressed(path, texts=texts, spoken=spoken, **columns)


def load_script(path: Path) -> Script:
    with np.load(path) as z:
        texts, spoken = (z[name].tobytes().decode().split("\n") for name in ("texts", "spoken"))
        columns = {name: tuple(z[f"{name}{i}"] for i in range(2)) for name in _COLUMNS}
    return Script(texts, spoken, **columns)


def groups(tokens: Iterable[int]) -> list[int]:
    """Where each word begins: the first token with a sound, or a mark before it, after a space or at the start."""
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
    """Words of `text`; 0 where something in it stands alone that is no word."""
    words = text.split()
    return len(words) if all(any(c.isalnum() for c in w) for w in words) else 0


def prepared(lines: Iterable[str], phonemes: Phonemes) -> tuple[Script, int]:
    """(script, lines left out because they are too short, too long, or have nothing to say)"""
    pairs = [(w.strip(), s.strip() or w.strip()) for w, _, s in (line.partition("\t") for line in lines) if w.strip()]
    # All sentences in one accent, then all in the other: espeak loads a voice anew at every change.
    read = [[phonemes.tokens(spoken, accent) for _, spoken in pairs] for accent in ACCENTS]
    kept = [
        (pair, rows)
        for pair, *rows in zip(pairs, *read, strict=True)
        if all(_LEAST <= len(row) <= MOST and groups(row) for row in rows)
    ]
    counts = [_words(written) if _words(written) == _words(spoken) else 0 for (written, spoken), _ in kept]
    columns = [[rows[accent] for _, rows in kept] for accent in range(len(ACCENTS))]
    script = Script(
        [written for (written, _), _ in kept],
        [spoken for (_, spoken), _ in kept],
        tuple(np.frombuffer(b"".join(map(bytes, column)), np.uint8) for column in columns),
        tuple(np.cumsum([len(row) for row in column]) for column in columns),
        tuple(np.array([0 < n == len(groups(r)) for n, r in zip(counts, c, strict=True)], np.bool_) for c in columns),
    )
    return script, len(pairs) - len(kept)
