"""Sentences that no model was trained on, for the speaking model to say: 200 of everyday life, 300 that are hard.

``numbers.txt`` holds 180 numbers and names in other words than the 300, for a talker that learnt from sentences worded
like some of those.

The 200 (``sentences.txt``) were written for this purpose; neither the text corpus nor any transcript holds one. The
300 follow from a seed: numbers, dates and money in digits, questions, long sentences, short ones, names.

``python -m bench.sentences`` prints all of them as they are read, numbers as words: what no training may say.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.row import NotMeasured
from codec.text.stream import spoken_text
from engines.speaking_parts import TextRules

SEED: Final = 20_261_120
COUNTS: Final = {"numbers": 100, "questions": 60, "long": 80, "short": 30, "names": 30}

_THINGS = "chairs tickets bottles letters horses lamps shirts plates boxes stamps rabbits windows".split()
_PLACES = "Boston Geneva Lisbon Dublin Oslo Toronto Vienna Madrid Denver Prague Cairo Sydney".split()
_FIRST = "Martin Ingrid Oliver Fatima Gregory Yuki Patricia Leonard Svetlana Rupert Chloe Desmond".split()
_LAST = "Abernathy Kowalski Thornbury Delacroix Okafor Lindqvist Ferraro Whitcombe Nakamura Pemberton".split()
_MONTHS = "January February March April May June July August September October November December".split()
_WORKS = "baker teacher driver nurse painter lawyer farmer singer plumber student".split()
_QUALITIES = "old heavy expensive quiet broken famous useful narrow cheerful empty".split()
_OBJECTS = "bridge garden engine camera kitchen violin tunnel ladder carpet fountain".split()
_JOINTS = (", and ", ", but ", "; ", ", because ", " while ", ", so ")


@dataclass(frozen=True, slots=True)
class Sentence:
    """What to say, and what is hard about it: everyday, numbers, questions, long, short, names."""

    text: str
    kind: str


def sentences() -> list[Sentence]:
    """All 500: the everyday ones first, then the hard ones, kind by kind. Always the same."""
    lines = (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
    everyday = [Sentence(line, "everyday") for line in lines]
    chance = random.Random(SEED)
    plain = [line for line in lines if line.endswith(".")]
    makers: dict[str, Callable[[], str]] = {
        "numbers": lambda: _numbers(chance),
        "questions": lambda: _question(chance),
        "long": lambda: _long(chance, plain),
        "short": lambda: _short(chance),
        "names": lambda: _names(chance),
    }
    hard = list[Sentence]()
    for kind, count in COUNTS.items():
        texts = dict[str, None]()
        while len(texts) < count:
            texts[makers[kind]()] = None
        hard += [Sentence(text, kind) for text in texts]
    return everyday + hard


def read(path: Path) -> list[Sentence]:
    """Other sentences, one a line; all count as everyday ones.

    Raises:
        NotMeasured: the file cannot be read or holds no sentence.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotMeasured(f"--sentences {path}: {error}") from error
    found = [Sentence(line.strip(), "everyday") for line in lines if line.strip()]
    if not found:
        raise NotMeasured(f"--sentences {path}: no line holds a sentence")
    return found


def main() -> None:
    """Print them, and those of ``numbers.txt``."""
    texts = [sentence.text for sentence in [*sentences(), *read(Path(__file__).parent / "numbers.txt")]]
    print(*(spoken_text(text, TextRules(), english=True) for text in texts), sep="\n")


def _numbers(chance: random.Random) -> str:
    n, thing, place = chance.randint, chance.choice(_THINGS), chance.choice(_PLACES)
    return chance.choice(
        [
            f"The hall has room for {n(21, 999)} {thing}.",
            f"It costs ${n(2, 99)}.{n(10, 99)} without the {thing}.",
            f"The train to {place} leaves at {n(1, 12)}:{n(10, 59)}.",
            f"She was born on {chance.choice(_MONTHS)} {n(1, 28)}, {n(1901, 2019)}.",
            f"About {n(11, 89)}% of the {thing} came from {place}.",
            f"The town had {n(1, 9)},{n(100, 999)} people in {n(1800, 1999)}.",
            f"He ran {n(2, 40)}.{n(1, 9)} kilometres in {n(11, 59)} minutes.",
            f"We counted {n(3, 19)} {thing} on the {n(4, 20)}th floor.",
            f"Room {n(101, 899)} is behind gate {n(2, 40)}.",
            f"They sold {n(2, 12)} million {thing} in {n(2001, 2024)}.",
            f"The parcel weighs {n(2, 60)} pounds and holds {n(3, 90)} {thing}.",
            f"Please call {n(200, 999)}-{n(1000, 9999)} before {n(1, 11)} o'clock.",
        ]
    )


def _question(chance: random.Random) -> str:
    thing, place, person = chance.choice(_THINGS), chance.choice(_PLACES), chance.choice(_FIRST)
    quality, item = chance.choice(_QUALITIES), chance.choice(_OBJECTS)
    return chance.choice(
        [
            f"Why is the {item} so {quality}?",
            f"How many {thing} did {person} bring from {place}?",
            f"Is the {quality} {item} still in {place}?",
            f"Where did {person} leave the {thing}?",
            f"Do you want the {quality} {item}, or would you rather have the {thing}?",
            f"When does the {item} in {place} open again?",
            f"Could {person} help us with the {thing} tomorrow?",
            f"Who told you that the {item} was {quality}?",
        ]
    )


def _long(chance: random.Random, plain: list[str]) -> str:
    parts = chance.sample(plain, chance.randint(2, 4))
    text = parts[0][:-1]
    for part in parts[1:]:
        start = part[0] if part.startswith("I ") else part[0].lower()
        text += chance.choice(_JOINTS) + start + part[1:-1]
    return text + "."


def _short(chance: random.Random) -> str:
    quality, item, work = chance.choice(_QUALITIES), chance.choice(_OBJECTS), chance.choice(_WORKS)
    return chance.choice(
        [f"The {quality} {item}.", f"Not the {item}!", f"Ask the {work}.", f"Thank you, {work}.", f"How {quality}!"]
    )


def _names(chance: random.Random) -> str:
    one, other = chance.sample(_FIRST, 2)
    last, place, work = chance.choice(_LAST), chance.choice(_PLACES), chance.choice(_WORKS)
    return chance.choice(
        [
            f"Mr. {last} and {one} met in {place}.",
            f"Dr. {one} {last} is a {work} from {place}.",
            f"{one} {last} wrote to {other} about the {work}.",
            f"My name is {one} {last}, and I am a {work}.",
            f"{other} asked whether {one} {last} lives in {place}.",
        ]
    )


if __name__ == "__main__":
    main()
