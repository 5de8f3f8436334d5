"""What fills a template: words by what they are, the rarest so far first; names, numbers, dates, money, spellings."""

import lzma
import random
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from training.speech.numerals import MONTHS, in_words, integer, ordinal, short_ordinal

DATA: Final = Path(__file__).parent / "data"
_TRIES = 40
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = MONTHS.split("|")
_ROADS = "Street Avenue Road Lane Drive Boulevard Court Place".split()
_TREES = "Oak Maple Main Park Church Mill High Cedar Elm Hill Lake River Station School King Queen Washington".split()
_WHEN = (
    "today|tomorrow|yesterday|tonight|last night|this morning|next week|last week|last year|on the weekend|right now|"
    "a while ago|two days ago|after lunch|before dinner|in the evening"
).split("|")
_BUILDINGS = (
    "hospital|bank|library|school|museum|post office|supermarket|pharmacy|gas station|hotel|church|theater|airport|"
    "restaurant|train station|police station|bakery|stadium|university|parking lot|swimming pool|bookstore|coffee shop"
).split("|")
_KINDS: Final = {
    "artifact": "6", "food": "13 20", "animal": "5", "role": "18", "body": "8", "act": "4", "idea": "9", "event": "11",
    "feeling": "12 7", "group": "14", "plant": "20", "substance": "27", "state": "26", "phenomenon": "19",
    "nature": "17 15",
    "noun": "3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28",
}  # fmt: skip


@cache
def lexicon() -> dict[str, list[str]]:
    """tag → words that can be it, most frequent first."""
    found: dict[str, list[str]] = {}
    for line in lzma.open(DATA / "words.txt.xz", "rt"):
        word, *tags = line.split()
        for tag in tags:
            found.setdefault(tag, []).append(word)
    return found


@cache
def vocabulary() -> tuple[str, ...]:
    """All words of the lexicon in lower case, most frequent first."""
    return tuple(line.split()[0].lower() for line in lzma.open(DATA / "words.txt.xz", "rt"))


@cache
def names(which: str) -> list[str]:
    """first, last, places or brands."""
    return (DATA / f"{which}.txt").read_text().split("\n")[:-1]


class Slots:
    """Fillers that follow one generator of chance and the words counted so far."""

    def __init__(self, chance: random.Random, counts: Counter[str]) -> None:
        self._chance = chance
        self._counts = counts
        pick, n = chance.choice, chance.randint
        self._fillers: dict[str, Callable[[], str]] = {
            "first": lambda: pick(names("first")),
            "last": lambda: pick(names("last")),
            "person": lambda: f"{pick(names('first'))} {pick(names('last'))}",
            "title": lambda: pick(["Mr.", "Mrs.", "Ms.", "Dr.", "Professor"]),
            "place": lambda: pick(names("places")),
            "day": lambda: pick(_DAYS),
            "month": lambda: pick(_MONTHS),
            "when": lambda: pick(_WHEN) if n(0, 3) else f"on {pick(_DAYS)}",
            "brand": lambda: pick(names("brands")),
            "building": lambda: pick(_BUILDINGS),
            "vehicle": lambda: pick("car bus train truck taxi van bicycle motorcycle".split()),
            "n": lambda: in_words(n(2, 20)),
            "n100": lambda: in_words(n(2, 99)),
            "n100cap": lambda: in_words(n(2, 99)).capitalize(),
            "integer": lambda: integer(int(10 ** chance.uniform(0.5, 4.5))),
            "big": lambda: f"{n(101, 999) if n(0, 1) else n(11, 999) * 100:,}",
            "hundreds": lambda: str(n(3, 9) * 50 if n(0, 1) else n(11, 18) * 25),
            "decimal": lambda: f"{n(0, 99)}.{n(1, 9)}" if n(0, 3) else f"{n(0, 20)}.{n(0, 9)}{n(1, 9)}",
            "pct": lambda: f"{n(1, 100)}%" if n(0, 3) else f"{n(0, 40)}.{n(1, 9)}%",
            "percent": lambda: f"{n(0, 12)}.{n(1, 9)}{pick(['', '5'])}%",
            "scale": lambda: pick(["million", "billion"]),
            "year": lambda: str(n(1700, 2029)),
            "decade": lambda: f"{n(185, 202)}0s",
            "date": lambda: self._date(),
            "time": lambda: self._time(),
            "money": lambda: self._money(),
            "phone": lambda: f"{n(200, 989)}-" * n(0, 1) + f"{n(200, 989)}-{n(0, 9999):04}",
            "digits": lambda: "".join(str(n(0, 9)) for _ in range(n(5, 10))),
            "code": lambda: " ".join(in_words(n(0, 9)) for _ in range(n(2, 4))),
            "page": lambda: str(n(2, 99) if n(0, 1) else n(101, 599)),
            "flight": lambda: str(n(101, 1099)),
            "gigabytes": lambda: pick("4 8 16 32 64 128 256 512".split()),
            "fraction": lambda: pick(["half", "a quarter of", "three quarters of"]),
            "score": lambda: f"{in_words(n(1, 9))} to {in_words(n(0, 9))}",
            "ordinal": lambda: ordinal(n(1, 40)),
            "road": lambda: f"{pick(_TREES) if n(0, 1) else pick(names('last'))} {pick(_ROADS)}",
            "street": lambda: f"{n(2, 9999) if n(0, 2) else n(2, 99)} {self.fill('road')}",
            "spelled": lambda: self._spelled(),
            "letters": lambda: " ".join(chr(65 + n(0, 25)) for _ in range(n(2, 6))),
        }

    def fill(self, name: str) -> str:
        """One filler of the slot; a slot that ends in 1 begins with a capital.

        Raises:
            KeyError: there is no such slot.
        """
        if name in self._fillers:
            return self._fillers[name]()
        if name.endswith("1"):
            word = self.fill(name[:-1])
            return word[0].upper() + word[1:]
        return self._word(name)

    def _word(self, name: str) -> str:
        """Of some words that fit, the one said least so far."""
        if name in ("adj", "adv"):
            tags = ["j" if name == "adj" else "r"]
        elif re.fullmatch(r"v[ti][zdgn]?", name):
            tags = [name[1:]]
        elif name in _KINDS:
            tags = [f"n{kind}" for kind in _KINDS[name].split()]
        else:
            tags = [f"s{kind}" for kind in _KINDS[name.removesuffix("s")].split()]
        pools = [pool for tag in tags if (pool := lexicon().get(tag))]
        sizes = [len(pool) for pool in pools]
        tries = [self._chance.choice(self._chance.choices(pools, sizes)[0]) for _ in range(_TRIES)]
        return min(tries, key=lambda word: self._counts[word.lower()])

    def _date(self) -> str:
        n = self._chance.randint
        day = n(1, 28)
        return f"{self._chance.choice(_MONTHS)} {short_ordinal(day)}" + (f", {n(1800, 2030)}" if n(0, 1) else "")

    def _time(self) -> str:
        n = self._chance.randint
        minute = self._chance.choice((0, 15, 30, 45, n(1, 59), n(1, 11) * 5))
        half = self._chance.choice(("", "", " a.m.", " p.m."))
        if not minute and not half:
            return f"{in_words(n(1, 12))} o'clock"
        return f"{n(1, 12)}:{minute:02}{half}"

    def _money(self) -> str:
        n = self._chance.randint
        sign = "$" if n(0, 9) else self._chance.choice("£€")
        return self._chance.choice((f"{sign}{n(1, 99)}", f"{sign}{n(1, 99)}.{n(1, 99):02}", f"{sign}{n(1, 99) * 50:,}"))

    def _spelled(self) -> str:
        name = self._chance.choice(names(self._chance.choice(("first", "last", "last"))))
        return f"{name}, {' '.join(c for c in name.upper() if c.isalpha())}"


_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\(([^()]*)\)")
_AN = re.compile(r"\b([Aa]) (?=[aeio]|u(?!ni|se|ti|ra|su)|hour|honest|honor|heir)(?!one|once|eu|ew)")


def expand(template: str, chance: random.Random, slots: Slots) -> str:
    """One sentence of a template."""
    while _CHOICE.search(template):
        template = _CHOICE.sub(lambda m: chance.choice(m[1].split("|")), template)
    text = _SLOT.sub(lambda m: slots.fill(m[1]), template)
    text = _AN.sub(r"\1n ", " ".join(text.split()))
    text = text.replace(".m..", ".m.").replace(" ,", ",")
    scaled = re.sub(r"([$£€][\d,]+)\.\d\d? (?=million|billion)", r"\1 ", text)
    return scaled[0].upper() + scaled[1:]


@cache
def templates() -> dict[str, tuple[float, list[str]]]:
    """kind → its weight and its templates."""
    found: dict[str, tuple[float, list[str]]] = {}
    kind = ""
    for line in (DATA / "templates.txt").read_text().splitlines():
        if line.startswith("["):
            kind, weight = line[1:-1].split()
            found[kind] = float(weight), []
        elif line and line[0] != "#":
            found[kind][1].append(line)
    return found
