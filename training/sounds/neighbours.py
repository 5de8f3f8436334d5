"""Weights of neighbours (codec/sounds/neighbours.py) are learnt from sentences of the Wikipedia homograph data.

Source: google-research-datasets/WikipediaHomographData (Gorman, Mazovetskiy and Nikolaev 2018; Apache-2.0). Its
training half teaches, and the other half judges. Words whose ways differ by more than noun and verb ("bass", "lead")
are left out of the weights.
"""

import csv
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from codec.sounds.neighbours import features

_TOKEN = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*|[.,;:!?]")
LEAST = 6
"""A feature must be seen so many times."""
ROUNDS, RATE, DECAY = 40, 0.3, 2e-5
"""Passes over the sentences, the rate of Adagrad's steps, and the pull towards 0."""


@dataclass(frozen=True)
class Example:
    """A word as written in its sentence. ``label``: the data set's name of the pronunciation; ``verb``: whether it is a
    verb, None where the word's ways differ otherwise; ``before``: the words since the last mark, two at most."""

    word: str
    label: str
    verb: bool | None
    before: tuple[str, ...]


def examples(folder: Path) -> Iterator[Example]:
    """Give the examples of a folder's .tsv files, one for each word."""
    for path in sorted(folder.glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        kinds = {row["wordid"]: row["wordid"].partition("_")[2] for row in rows}
        for row in rows:
            text, start, end = row["sentence"].encode(), int(row["start"]), int(row["end"])
            before: list[str] = []
            for token in _TOKEN.findall(text[:start].decode()):
                before = [*before, token][-2:] if token[0].isalpha() else []
            verb = _is_verb(kinds[row["wordid"]], set(kinds.values()))
            yield Example(text[start:end].decode(), row["wordid"], verb, tuple(before))


def _is_verb(kind: str, kinds: set[str]) -> bool | None:
    """Whether a kind of a word's ``kinds`` is the verb. A kind without a name is what the other one is not."""
    if kind == "vrb" or (kind in ("", "nou-vrb") and kinds <= {kind, "nou", "adj", "adj-nou"} and len(kinds) > 1):
        return True
    if kind in ("nou", "adj", "adj-nou", "adj-nou-vrb") or (kind == "" and kinds == {"", "vrb"}):
        return False
    return None


def learn(found: list[Example], seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Learn the weights of features and of words, by logistic regression with adaptive steps."""
    rows = [([*features(one.before), f"={one.word.lower()}"], one.verb) for one in found if one.verb is not None]
    counts = Counter(key for keys, _ in rows for key in keys)
    rows = [([key for key in keys if counts[key] >= LEAST or key[0] == "="], verb) for keys, verb in rows]
    weights: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(lambda: 1e-8)
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        chance.shuffle(rows)
        for keys, verb in rows:
            slope = 1 / (1 + math.exp(-sum(weights[key] for key in keys))) - bool(verb)
            for key in keys:
                squares[key] += slope * slope
                weights[key] -= RATE * slope / math.sqrt(squares[key]) + DECAY * weights[key]
    rounded = {key: round(weight, 2) for key, weight in weights.items() if abs(weight) >= 0.15}
    shared = {key: weight for key, weight in sorted(rounded.items()) if key[0] != "="}
    return shared, {key[1:]: weight for key, weight in sorted(rounded.items()) if key[0] == "="}


def write(weights: dict[str, float], own: dict[str, float], path: Path) -> None:
    """Write the runtime's file."""
    path.write_bytes(msgspec.json.encode({"weights": weights, "own": own}))
