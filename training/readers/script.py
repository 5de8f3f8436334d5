"""What is to be read: sentences and their phones, made once on a processor."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.asr.phones import Phones
from training.asr.sentences import random_sentence
from training.readers.timing import spelled
from training.transcript import transcript

_MOST = 200
"""Phones of a sentence: some fifteen seconds."""


@dataclass(frozen=True)
class Line:
    """A sentence: its transcript, phone ids uint8 [n], which of them begin a word."""

    text: str
    phones: NDArray[np.uint8]
    first: NDArray[np.bool_]


def write_script(fiction: Sequence[str], phones: Phones, count: int, seed: int, path: Path) -> int:
    """`count` sentences like those of `synth` as one .npz; how many phones they have."""
    rng = random.Random(seed)
    order = list(fiction)
    rng.shuffle(order)
    lines: list[Line] = []
    position = 0
    while len(lines) < count:
        text = transcript(random_sentence(rng, order, position))
        position += 1
        ids, first = spelled(phones, text.split())
        if sum(first) == len(text.split()) and 1 <= len(ids) <= _MOST:
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
