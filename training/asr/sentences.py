"""Sentences from templates for what old fiction lacks (numbers, commands, questions, modern words), and names nobody
has heard.

Invented names make the decoder copy from the context: no language model can guess them.
"""

import random
import re

from training.transcript import spell, spell_ordinal

_MODERN = (
    "computer phone email website internet password screen keyboard battery charger software update video camera "
    "microphone laptop tablet browser download upload server database network router signal message notification "
    "account profile subscription online airport airplane flight ticket passport hotel taxi highway traffic parking "
    "garage supermarket restaurant pizza burger coffee television radio movie music podcast playlist channel episode "
    "game player soccer football basketball tennis team coach hospital doctor nurse vaccine medicine pharmacy "
    "insurance appointment schedule calendar meeting manager office project deadline budget invoice report customer "
    "company market product brand design engineer scientist research university student teacher language lesson "
    "homework exam science biology chemistry physics history geography economy climate energy solar electric plastic "
    "recycling government president minister election parliament police fire station satellite rocket space planet "
    "robot machine artificial intelligence model data code program algorithm kitchen refrigerator microwave "
    "dishwasher sofa bathroom shower garden weekend vacation birthday party wedding family parents brother sister "
    "children dog cat bicycle bus subway train station"
).split()
_PLACES = (
    "london paris berlin new york chicago boston california texas canada australia india china japan africa europe "
    "germany france spain italy mexico brazil russia sweden norway ireland scotland england america"
).split()
_FIRST = (
    "James Mary John Linda Robert Susan Michael Karen David Lisa William Nancy Richard Betty Joseph Sandra Thomas "
    "Ashley Charles Emily Daniel Donna Matthew Michelle Anthony Carol Mark Amanda Paul Melissa Steven Deborah Andrew "
    "Laura Kevin Sharon Brian Cynthia George Kathleen Edward Amy Ronald Angela Jason Helen Jeffrey Anna Ryan Brenda "
    "Jacob Pamela Gary Nicole Eric Emma Jonathan Samantha"
).split()
_ONSETS = "b bl br ch d dr f fl g gr h j k kl l m n p pr r s sh st t tr v w z".split()
_NUCLEI = "a e i o u ee oo ay or ar er".split()
_CODAS = ["", "", "n", "l", "r", "s", "m", "k", "t", "nd", "x", "th"]
_TEMPLATES = (
    "turn {on} the {thing} in the {room}",
    "set a timer for {n} minutes",
    "what is the weather in {place} {when}",
    "please call {person} {when}",
    "remind me to buy {n} {things} {when}",
    "how many {things} do you have",
    "play some {thing} music",
    "i have a meeting with {person} at {hour}",
    "the {thing} costs {big} dollars",
    "my {thing} does not work",
    "where is the nearest {thing}",
    "it was the {ordinal} of {month} {year}",
    "open the {thing} and close the {thing}",
    "can you help me with the {thing}",
    "the number is {digits}",
    "{person} lives in {place}",
    "we need {n} more {things}",
    "is the {thing} ready",
    "thank you very much {person}",
    "there are {big} people in {place}",
    "do you want {thing} or {thing}",
    "she is {n} years old",
    "i would like to book a {thing} to {place}",
    "the {thing} of the {thing} is very {quality}",
    "he works as a {thing} in {place}",
    "send a {thing} to {person}",
    "what time is it",
    "the {thing} was built in {year}",
    "why is the {thing} so {quality}",
    "{name} and {name} went to {name}",
    "please write to {name} about {name}",
    "my name is {name}",
    "{name} told {person} that the {thing} is {quality}",
    "we met {name} in {name} {when}",
    "the {name} company makes {things}",
    "ask {name} where {name} is",
    "{name} is not {name}",
    "{digits}",
    "{n} plus {n} is {n}",
    "my dad and my mom are {quality}",
    "i like to eat {food}",
    "the {food} is {quality}",
    "let us go to the {place} {when}",
    "{person} has a {quality} {thing}",
    "did you see the {quality} {thing} {when}",
)
_FOOD = (
    "apples bananas bread rice fish chicken beef eggs cheese cake chocolate noodles soup salad tomatoes potatoes "
    "oranges tea milk water"
).split()
_QUALITY = (
    "big small good bad new old happy sad fast slow hot cold expensive cheap beautiful terrible interesting "
    "boring important"
).split()
_MONTHS = "january february march april may june july august september october november december".split()
_TITLES = {"Mr": "Mister", "Mrs": "Missus", "Dr": "Doctor", "St": "Saint"}
_TITLE = re.compile(r"\b(Mr|Mrs|Dr|St)\b\.?")
_WHEN = [
    "today",
    "tomorrow",
    "yesterday",
    "on monday",
    "on friday",
    "next week",
    "in the morning",
    "tonight",
    "after lunch",
    "",
]


def invented_name(rng: random.Random) -> str:
    """A pronounceable word of one to three syllables that no text contains."""
    count = rng.choice((2, 2, 2, 3))
    parts: list[str] = []
    for i in range(count):
        closed = i == count - 1 or rng.random() < 0.3
        parts.append(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + (rng.choice(_CODAS) if closed else ""))
    return "".join(parts).capitalize()


def year(number: int) -> str:
    """1967 -> "nineteen sixty seven"; 2004 -> "two thousand four"."""
    high, low = divmod(number, 100)
    if high % 10 == 0 and low < 10:
        return spell(number)
    return f"{spell(high)} {'hundred' if low == 0 else ('oh ' if low < 10 else '') + spell(low)}"


def templated(rng: random.Random) -> str:
    """One sentence from a random template."""
    fill = {
        "thing": lambda: rng.choice(_MODERN),
        "things": lambda: rng.choice(_MODERN) + "s",
        "place": lambda: rng.choice(_PLACES),
        "person": lambda: rng.choice(_FIRST),
        "n": lambda: spell(rng.randint(0, 100)),
        "big": lambda: spell(int(10 ** rng.uniform(1, 5.9))),
        "digits": lambda: " ".join(spell(rng.randint(0, 9)) for _ in range(rng.randint(3, 10))),
        "year": lambda: year(rng.randint(1750, 2030)),
        "ordinal": lambda: spell_ordinal(rng.randint(1, 31)),
        "month": lambda: rng.choice(_MONTHS),
        "when": lambda: rng.choice(_WHEN),
        "hour": lambda: spell(rng.randint(1, 12)) + rng.choice((" o'clock", " thirty", " fifteen", "")),
        "room": lambda: rng.choice(("kitchen", "bedroom", "hall")),
        "on": lambda: rng.choice(("on", "off", "up", "down")),
        "name": lambda: invented_name(rng),
        "food": lambda: rng.choice(_FOOD),
        "quality": lambda: rng.choice(_QUALITY),
    }
    template = rng.choice(_TEMPLATES)
    for key, value in fill.items():
        while "{" + key + "}" in template:
            template = template.replace("{" + key + "}", value(), 1)
    return " ".join(template.split())


def expand_titles(text: str) -> str:
    """Abbreviated titles as they are read: "Mr. Brown" -> "Mister Brown"."""
    return _TITLE.sub(lambda m: _TITLES[m.group(1)], text)
