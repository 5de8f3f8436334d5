"""What is to be read: sentences and their phones, made once on a processor."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.asr.phones import Phones
from training.asr.sentences import random_sentence
from training.readers.timing import spelled
from training.transcript import transcript
from training.tts.text import MARKS

_MOST = 200
"""Phones of a sentence: some fifteen seconds."""


@dataclass(frozen=True)
class Line:
    """A sentence: its text, phone ids uint8 [n], which of them begin a word."""

    text: str
    phones: NDArray[np.uint8]
    first: NDArray[np.bool_]


def transcripts(fiction: Sequence[str], seed: int) -> Iterator[str]:
    """Endless sentences like those of `synth`, as transcripts."""
    rng = random.Random(seed)
    order = list(fiction)
    rng.shuffle(order)
    for position in count():
        yield transcript(random_sentence(rng, order, position))


def unsaid(texts: Iterator[str], never: Iterable[str]) -> Iterator[str]:
    """Of `texts` those whose words are not all the words of one of `never`: a test's sentences stay unread.

    "and" does not count: some say it in numbers.
    """
    refused = {_words(line) for line in never}
    return (text for text in texts if _words(text) not in refused)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in transcript(text).split() if word != "and")


def write_script(texts: Iterator[str], phones: Phones, sentences: int, path: Path) -> int:
    """As many of `texts`, with or without the marks of `training.tts.text`, as one .npz; how many phones they have."""
    lines: list[Line] = []
    while len(lines) < sentences:
        text = next(texts)
        words = [bare for word in text.split() if (bare := word.strip(MARKS))]
        ids, first = spelled(phones, words)
        if sum(first) == len(words) == len(text.split()) and 1 <= len(ids) <= _MOST:
            lines.append(Line(text, np.array(ids, np.uint8), np.array(first)))
    np.savez_compressed(
        path,
        texts=np.frombuffer("\n".join(line.text for line in lines).encode(), np.uint8),
        counts=np.array([len(line.phones) for line in lines], np.uint8),
        phones=np.concatenate([line.phones for line in lines]),
        first=np.packbits(np.concatenate([line.first for line in lines])),
    )
    return sum(len(line.phones) for line in lines)


def load_script(path: Path) -> list[Line]:
    """What `write_script` wrote."""
    with np.load(path) as z:
        texts = z["texts"].tobytes().decode().split("\n")
        ends = z["counts"].astype(int).cumsum()
        first = np.unpackbits(z["first"])[: ends[-1]].astype(bool)
        parts = zip(np.split(z["phones"], ends[:-1]), np.split(first, ends[:-1]), strict=True)
        return [Line(t, *two) for t, two in zip(texts, parts, strict=True)]
