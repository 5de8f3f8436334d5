"""Sentences that a talker stumbles over: speakable all of them, and what they are made for does occur."""

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from bench import sentences as evaluation
from tests.training.tts.shapes import FICTION
from training.tts import stumbles
from training.tts.stumbles import stumble
from training.tts.text import speakable

SEEDS = st.integers(0, 2**64)
SPOKEN = re.compile(r" [a-z][a-z' ,.?!;:]*[.?!]")
DIGIT = "(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
DIGITS = re.compile(rf"(?:^dial|^the [a-z]+ is) ({DIGIT}(?: {DIGIT}){{2,}})(?: at |$)")
YEAR = re.compile(r"(?:seventeen|eighteen|nineteen|twenty|two thousand)\b.* was the year when ")

NAMES = re.compile(r"this is (?:[a-z]+ )?(\w)\w* (\w)\w* speaking from ")


def said(seed: int, count: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [stumble(rng, FICTION) for _ in range(count)]


@given(SEEDS)
def test_every_sentence_is_speakable(seed: int) -> None:
    """Not one is dropped: numbers are words, and every word of it is still there."""
    for text in said(seed, 5):
        assert not any(c.isdigit() for c in text)
        assert text == " ".join(text.split())
        spoken = speakable(text)
        assert SPOKEN.fullmatch(spoken)
        assert re.findall("[a-z]+", spoken) == re.findall("[a-z]+", text.lower())


@given(SEEDS)
def test_the_seed_decides(seed: int) -> None:
    assert said(seed, 3) == said(seed, 3)


def test_seeds_differ() -> None:
    assert len({text for seed in range(200) for text in said(seed)}) > 190


def test_most_numbers_read_by_digits_have_one_twice_in_a_row() -> None:
    """Zero by either name; and digits change too."""
    found = [match[1].split() for text in said(1, 4000) if (match := DIGITS.search(text))]
    assert len(found) > 100 and {len(digits) for digits in found} == set(range(3, 11))
    twice = [any(a == b for a, b in zip(digits, digits[1:], strict=False)) for digits in found]
    assert 0.6 < sum(twice) / len(twice) < 1
    assert sum(len(set(digits)) > 1 for digits in found) > 0.9 * len(found)
    assert {digit for digits in found for digit in digits} == set(DIGIT.strip("(?:)").split("|"))


def test_the_other_kinds_occur() -> None:
    """Years at the start, names side by side that begin alike, clauses in a row."""
    texts = said(2, 2000)
    assert sum(bool(YEAR.match(text)) for text in texts) > 20
    names = [match.groups() for text in texts if (match := re.match(NAMES, text))]
    assert len(names) > 50 and sum(a == b for a, b in names) > len(names) / 4
    first = {line.strip(" .,;:!?\"'").lower() for line in FICTION}
    chained = [text for text in texts if sum(text.lower().count(line) for line in first) >= 2]
    assert 0.25 < len(chained) / len(texts) < 0.45
    assert all(re.search(r",? (while|because|and|but|although|when|so|until|before|after|as) ", t) for t in chained)


def test_what_an_evaluation_has_said_is_not_learnt() -> None:
    """Its things, trades and qualities do not occur beside numbers and names."""
    ours = {*stumbles._THINGS, *stumbles._COUNTED, *stumbles._TRADES}
    theirs = {*evaluation._THINGS, *evaluation._WORKS, *evaluation._OBJECTS, *evaluation._QUALITIES}
    assert not {word for word in ours if word in theirs or f"{word}s" in theirs or word.removesuffix("s") in theirs}
    said_there = {one.text.lower() for one in evaluation.sentences()}
    assert not said_there & {text + "." for text in said(3, 2000)}


@given(SEEDS)
def test_of_long_lines_alone_no_clauses_are_made(seed: int) -> None:
    """Nothing to say then, or something else that is speakable."""
    text = stumble(random.Random(seed), ["and so they went on and on " * 4])
    assert text == "" or SPOKEN.fullmatch(speakable(text))
    assert "on and on" not in text
