"""Sentences are made of templates: entries of lists, numbers, names, spellings, and words by what they are, of which
the one said least so far comes first. Numbers stand as digits; `training.speech.written` brings them into the style."""

import random
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final

from training.transcript import lines_of

DATA: Final = Path(__file__).parent / "data"
_TRIES = 40
"""So many words are drawn for a slot, of which the one said least so far fills it."""
_ONSETS = "b bl br ch d dr f fl g gr h j k kl l m n p pr r s sh st t tr v w z".split()
_NUCLEI = "a e i o u ee oo ay or ar er".split()
_CODAS = ["", "", "n", "l", "r", "s", "m", "k", "t", "nd", "x", "th"]
_NAMES: Final = {"first": "first", "last": "last", "place": "places", "brand": "brands"}
_KINDS: Final = {
    "artifact": "6", "food": "13 20", "animal": "5", "role": "18", "body": "8", "act": "4", "idea": "9", "event": "11",
    "feeling": "12 7", "group": "14", "plant": "20", "substance": "27", "state": "26", "phenomenon": "19",
    "nature": "17 15",
    "noun": "3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28",
}  # fmt: skip


@cache
def lexicon() -> dict[str, list[str]]:
    """Give the words, most frequent first, and the tags of what each can be."""
    return {word: tags for word, *tags in map(str.split, lines_of(DATA / "words.txt.xz"))}


@cache
def tagged(tag: str) -> list[str]:
    """Give the words that can be what a tag says, most frequent first."""
    return [word for word, tags in lexicon().items() if tag in tags]


@cache
def vocabulary() -> tuple[str, ...]:
    """Give all words of the lexicon in lower case, most frequent first."""
    return tuple(map(str.lower, lexicon()))


@cache
def names(which: str) -> list[str]:
    """Give a list of names: first, last, places or brands."""
    return (DATA / f"{which}.txt").read_text().split("\n")[:-1]


@cache
def _read() -> tuple[dict[str, list[str]], dict[str, tuple[float, list[str]]]]:
    entries: dict[str, list[str]] = {}
    found: dict[str, tuple[float, list[str]]] = {}
    kind = ""
    for line in (DATA / "templates.txt").read_text().splitlines():
        if line.startswith("["):
            kind, weight = line[1:-1].split()
            found[kind] = float(weight), []
        elif line and line[0] != "#":
            if kind:
                found[kind][1].append(line)
            else:
                name, _, listed = line.partition(" ")
                entries[name.strip("{}")] = listed.split("|")
    return entries, found


def templates() -> dict[str, tuple[float, list[str]]]:
    """Give each kind's weight and its templates."""
    return _read()[1]


def invented_name(chance: random.Random) -> str:
    """Make a pronounceable word of two or three syllables that no text contains. No language model can guess it, so a
    decoder learns to copy it from the context."""
    count = chance.choice((2, 2, 2, 3))
    parts: list[str] = []
    for i in range(count):
        closed = i == count - 1 or chance.random() < 0.3
        parts.append(chance.choice(_ONSETS) + chance.choice(_NUCLEI) + (chance.choice(_CODAS) if closed else ""))
    return "".join(parts).capitalize()


class Slots:
    """Fillers of slots. They follow one generator of chance and the words counted so far."""

    def __init__(self, chance: random.Random, counts: Counter[str]) -> None:
        self._chance, self._counts = chance, counts

    def fill(self, name: str) -> str:
        """Give one filler of the slot. The filler of a slot that ends in 1 begins with a capital.

        Raises:
            KeyError: there is no such slot.
        """
        entries, _ = _read()
        if name in entries:
            entry = _SLOT.sub(lambda m: self.fill(m[1]), self._chance.choice(entries[name]))
            return _RANGE.sub(lambda m: str(self._chance.randint(int(m[1]), int(m[2]))), entry)
        if name in _NAMES:
            return self._chance.choice(names(_NAMES[name]))
        if name == "invented":
            return invented_name(self._chance)
        if name == "spelled":
            known = self.fill(self._chance.choice(("first", "last", "last")))
            return f"{known}, {' '.join(c for c in known.upper() if c.isalpha())}"
        if name.endswith("1"):
            word = self.fill(name[:-1])
            return word[0].upper() + word[1:]
        return self._word(name)

    def _word(self, name: str) -> str:
        """Give, of some words that fit, the one said least so far."""
        if name in ("adj", "adv"):
            tags = ["j" if name == "adj" else "r"]
        elif re.fullmatch(r"v[ti][zdgn]?", name):
            tags = [name[1:]]
        elif name in _KINDS:
            tags = [f"n{kind}" for kind in _KINDS[name].split()]
        else:
            tags = [f"s{kind}" for kind in _KINDS[name.removesuffix("s")].split()]
        pools = [pool for tag in tags if (pool := tagged(tag))]
        sizes = [len(pool) for pool in pools]
        tries = [self._chance.choice(self._chance.choices(pools, sizes)[0]) for _ in range(_TRIES)]
        return min(tries, key=lambda word: self._counts[word.lower()])


_SLOT = re.compile(r"\{(\w+)\}")
_RANGE = re.compile(r"<(\d+)-(\d+)>")
_CHOICE = re.compile(r"\(([^()]*)\)")
_AN = re.compile(r"\b([Aa]) (?=[aeio]|u(?!ni|se|ti|ra|su)|hour|honest|honor|heir)(?!one|once|eu|ew)")


def expand(template: str, chance: random.Random, slots: Slots) -> str:
    """Make one sentence of a template."""
    while _CHOICE.search(template):
        template = _CHOICE.sub(lambda m: chance.choice(m[1].split("|")), template)
    text = _SLOT.sub(lambda m: slots.fill(m[1]), template)
    text = _AN.sub(r"\1n ", " ".join(text.split()))
    text = text.replace(".m..", ".m.").replace(" ,", ",")
    scaled = re.sub(r"([$£€][\d,]+)\.\d\d? (?=million|billion)", r"\1 ", text)
    return scaled[0].upper() + scaled[1:]
