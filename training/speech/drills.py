"""Lines that sentences seldom hold and a speaking model is asked for: very short ones, letters, digits in groups,
numbers, years, times, questions to be answered by yes or no, and lists of single words, the whole vocabulary among
them.

Contract: `drills(count, never, seed)` gives lines as they are spoken, without digits. Capitals are read letter by
letter.
"""

import random
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Final

from codec.text.numbers import cardinal, digits, ordinal, year
from training.speech.slots import names, vocabulary
from training.transcript import lines_of

SHARES: Final = {"short": 26, "letters": 17, "groups": 10, "numbers": 18, "times": 8, "asked": 13, "words": 8}
"""How often each kind is drawn, in percent. These are the kinds that foreign ears misheard of the voice that reads
letters."""
_DATA: Final = Path(__file__).parent / "data" / "drills.txt"
_UNITS: Final = (
    "dollars euros pounds percent miles kilometers meters degrees minutes hours days weeks years people".split()
)
# A list has so many words.
_FEW: Final = 4


class Drills:
    """The kinds of lines. They are made of the sections of `drills.txt`."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._parts: dict[str, list[str]] = {}
        part: list[str] = []
        for line in lines_of(_DATA):
            if line.startswith("["):
                part = self._parts.setdefault(line[1:-1], [])
            elif line:
                part.append(line)
        self._words = [word for word in vocabulary()[:25_000] if word.isalpha() and len(word) > 1]
        chance.shuffle(self._words)
        self._next = 0

    def _of(self, part: str) -> str:
        return self._chance.choice(self._parts[part])

    def _word(self) -> str:
        self._next += 1
        return self._words[self._next % len(self._words)]

    def _any_name(self) -> str:
        return self._chance.choice(names(self._chance.choice(("first", "last", "places"))))

    def _number(self) -> int:
        high = self._chance.choice((10, 20, 100, 100, 100, 1000, 1000, 10_000, 100_000, 1_000_000))
        return self._chance.randint(0, high)

    def short(self) -> str:
        """Make one to three words; in half of the lines a sentence follows them."""
        kind, mark = self._chance.random(), self._chance.choice(".....!?")
        if kind < 0.6:
            line = self._of("short")
            line = line if line[-1] in ".?!" else line + self._chance.choice("...!")
        elif kind < 0.8:
            line = self._word().capitalize() + mark
        elif kind < 0.9:
            line = self._any_name() + mark
        else:
            line = f"{self._word()} {self._word()}".capitalize() + mark
        return f"{line} {self._of('after')}" if self._chance.random() < 0.5 else line

    def _acronym(self) -> str:
        if self._chance.random() < 0.5:
            return self._of("acronyms")
        size = self._chance.choice((2, 3, 3, 3, 3, 4, 4, 5))
        return "".join(self._chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(size))

    def letters(self) -> str:
        """Make acronyms, plural and possessive ones too, or letters one by one."""
        kind = self._chance.random()
        if kind < 0.15:
            spelled = " ".join(c for c in self._any_name().upper() if c.isalpha())
            return f"{self._of('spelled')} {spelled}."
        if kind < 0.25:
            return ", ".join(self._chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(3)) + "."
        if kind < 0.4:
            return f"{self._acronym()}{self._chance.choice('..?!')}"
        line = self._of("letters")
        while "@" in line:
            line = line.replace("@", self._acronym(), 1)
        return line

    def groups(self) -> str:
        """Make digits one by one, in groups as telephone and card numbers have them."""
        sizes = self._chance.choice(((3, 4), (3, 3, 4), (4, 4, 4, 4), (5,), (3, 2, 4), (6,), (4,), (3,), (3, 3)))
        said = [digits("".join(self._chance.choice("0123456789") for _ in range(size))) for size in sizes]
        return f"{self._of('groups')} {', '.join(said)}."

    def numbers(self) -> str:
        """Make numbers up to a million, with and without what is counted."""
        number, kind = self._number(), self._chance.random()
        if kind < 0.15:
            line = f"{cardinal(str(number))}."
        elif kind < 0.25:
            line = f"the {ordinal(str(max(1, number % 100)))} {self._word()}."
        elif kind < 0.35:
            part = digits(str(self._chance.randint(0, 99)))
            line = f"{cardinal(str(number))} point {part} {self._chance.choice(_UNITS)}."
        elif kind < 0.6:
            line = f"{self._of('numbers')} {cardinal(str(number))}."
        elif kind < 0.75:
            line = f"{self._of('numbers')} {cardinal(str(number))} {self._chance.choice(_UNITS)}."
        else:
            line = ", ".join(cardinal(str(self._number())) for _ in range(3)) + "."
        return line[0].upper() + line[1:]

    def times(self) -> str:
        """Make years, dates and times of day."""
        kind, month = self._chance.random(), self._of("months")
        if kind < 0.35:
            return f"{self._of('years')} {year(str(self._chance.randint(1100, 2099)))}."
        if kind < 0.65:
            day = ordinal(str(self._chance.randint(1, 31)))
            end = f", {year(str(self._chance.randint(1800, 2030)))}" if self._chance.random() < 0.4 else ""
            return f"{self._of('dates')} {month} {day}{end}."
        minute = self._chance.choice((0, 5, 10, 15, 20, 30, 40, 45, 50, 55, self._chance.randint(1, 59)))
        late = (
            f" {'oh ' if 0 < minute < 10 else ''}{cardinal(str(minute))}"
            if minute
            else self._chance.choice((" o'clock", ""))
        )
        half = self._chance.choice((" a m", " p m", "", " in the morning", " tonight"))
        return f"{self._of('times')} {cardinal(str(self._chance.randint(1, 12)))}{late}{half}."

    def asked(self) -> str:
        """Make questions to be answered by yes or no."""
        line = self._of("asked")
        while "#" in line:
            line = line.replace("#", self._word(), 1)
        return line if self._chance.random() < 0.7 else f"{line} {self._of('after')}"

    def words(self) -> str:
        """Make a list of single words."""
        listed = [self._word() for _ in range(_FEW)]
        return f"{', '.join(listed[:-1])}, and {listed[-1]}.".capitalize()


def drills(count: int, never: Container[str], seed: int) -> Iterator[str]:
    """Give so many lines. Only the shortest of them occur more than once."""
    chance = random.Random(seed)
    made = Drills(chance)
    kinds: list[Callable[[], str]] = [getattr(made, kind) for kind in SHARES]
    given = 0
    while given < count:
        [kind] = chance.choices(kinds, list(SHARES.values()))
        line = kind()
        if line not in never:
            given += 1
            yield line
