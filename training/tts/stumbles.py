"""Sentences of what a talker stumbles over: years and numbers at the start, the same digit twice, names side by side,
clauses strung together.

Numbers and names stand in other frames, with other nouns and trades, than those that an evaluation has said
(bench/sentences.py); a test holds the words apart.

Why: a skipped word is a talker that takes two like neighbours for one. Fiction has few of them.
"""

import random
from collections.abc import Sequence

from training.asr.sentences import invented_name, year
from training.transcript import spell, spell_ordinal

_THINGS = (
    "platform bus flight seat table page chapter line street building office order number channel track lesson house "
    "apartment shelf locker lane level counter stop station desk hut"
).split()
_COUNTED = (
    "books miles doors hours days weeks pages pictures soldiers ships cups trees coins photographs meetings stairs "
    "candles apples spoons roads villages benches stones buttons dogs nails guests islands roofs songs"
).split()
_EVENTS = (
    "the war ended",
    "the bridge was built",
    "they moved to the coast",
    "the mill burned down",
    "my father was born",
    "the company was founded",
    "we bought the farm",
    "the river flooded the valley",
    "she left for the city",
    "the old school was closed",
    "the first railway came here",
    "nobody had heard of it",
)
_JOINS = ("while", "because", "and", "but", "although", "when", "so", "until", "before", "after", "as")
_TRADES = (
    "doctor writer dentist gardener carpenter reporter engineer pilot waiter cook sailor tailor butcher miner barber "
    "judge chemist porter editor banker"
).split()


def _digits(rng: random.Random) -> str:
    """Three to ten digits; every second one or so is the one before it once more."""
    out = [rng.randint(0, 9)]
    for _ in range(rng.randint(2, 9)):
        out.append(out[-1] if rng.random() < 0.35 else rng.randint(0, 9))
    zero = rng.choice(("zero", "zero", "oh"))
    return " ".join(spell(d) if d else zero for d in out)


def _number(rng: random.Random) -> str:
    """As it is read out: a quantity, with or without "and" after the hundreds."""
    said = spell(int(10 ** rng.uniform(0.3, 4.7)))
    return said.replace("hundred ", "hundred and ") if rng.random() < 0.5 else said


def _clock(rng: random.Random) -> str:
    hour, minute = (
        spell(rng.randint(1, 12)),
        rng.choice(("", "fifteen", "thirty", "forty five", spell(rng.randint(10, 59)))),
    )
    return f"{hour} {minute}" if minute else f"{hour} o'clock"


def _numbered(rng: random.Random) -> str:
    thing, other = rng.sample(_THINGS, 2)
    counted, more = rng.sample(_COUNTED, 2)
    some, event = _number(rng), rng.choice(_EVENTS)
    when = year(rng.randint(1700, 2035))
    return rng.choice(
        (
            f"in {when} {event}",
            f"{when} was the year when {event}",
            f"{event} in {when}, not in {year(rng.randint(1700, 2035))}",
            f"between {thing} {some} and {thing} {_number(rng)} is {other} {spell(rng.randint(1, 30))}",
            f"dial {_digits(rng)} at {_clock(rng)}",
            f"the {thing} is {_digits(rng)}",
            f"they carried {some} {counted} to the {spell_ordinal(rng.randint(1, 40))} {thing}",
            f"{some} {counted} and {_number(rng)} {more} were left",
            f"at {_clock(rng)} everybody went to {thing} {spell(rng.randint(1, 30))}",
            f"the {spell_ordinal(rng.randint(1, 31))} {thing} on the {spell_ordinal(rng.randint(1, 12))} {other}",
            f"{some} dollars is {spell(rng.randint(1, 99))} percent more than the {counted} were worth",
            f"{some} and {_number(rng)} make {_number(rng)}",
        )
    )


def _named(rng: random.Random) -> str:
    first, last, place = (invented_name(rng) for _ in range(3))
    if rng.random() < 0.5:  # both begin alike
        last = first[0] + last[1:] if last[1:2].islower() and last[1] in "aeiou" else last
    title = rng.choice(("doctor", "mister", "missus", "professor", "captain", ""))
    return rng.choice(
        (
            f"the {rng.choice(_TRADES)} {first} {last} has moved to {place}",
            f"{first} {last} and {title} {place} came back from {place}",
            f"ask {title} {first} {last} about {place}",
            f"this is {title} {first} {last} speaking from {place}",
        )
    )


def _clauses(rng: random.Random, fiction: Sequence[str]) -> str:
    """Two to four short sentences with conjunctions between."""
    short = [line for line in (rng.choice(fiction) for _ in range(40)) if len(line) < 70]
    some = [line.strip(" .,;:!?\"'") for line in short[: rng.choice((2, 2, 3, 4))]]
    out = ""
    for clause in some:
        clause = clause[:1].lower() + clause[1:]
        out += clause if not out else f"{rng.choice((', ', ' '))}{rng.choice(_JOINS)} {clause}"
    return out


def stumble(rng: random.Random, fiction: Sequence[str]) -> str:
    """One such sentence, numbers spelled out, without an end mark; "" where no line of `fiction` is short enough."""
    draw = rng.random()
    if draw < 0.45:
        return " ".join(_numbered(rng).split())
    if draw < 0.65:
        return " ".join(_named(rng).split())
    return _clauses(rng, fiction)
