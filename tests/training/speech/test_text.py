"""Sentences for generated speech have one style, can always be said, and are never a sentence of a test."""

import lzma
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bench.sentences import sentences as bench_sentences
from training.speech.slots import Slots, expand, names, templates, vocabulary
from training.speech.sounds import said
from training.speech.text import Never, Script, sentences, transcripts
from training.speech.written import styled
from training.transcript import plain

FICTION = [
    '"A bird, I think, sir," said Holland.',
    "He paid five dollars for three dogs; they were forty-one years old, and nobody knew it but himself.",
    "The kettle was cold when she came in from the garden, because the maid had forgotten to light the fire again.",
    "Good-night!",
    "There were six hundred and twelve men in the fort at half past four.",
]
_SPOKEN = re.compile(r"[A-Za-z][A-Za-z '.,?!-]*[.?!]")
_WRITTEN = re.compile(r"[A-Za-z0-9$£€][A-Za-z0-9 '.,?!%:$£€-]*[.?!]")


def script(seed: int, never: Never | None = None) -> Script:
    """Make a script of five sentences of fiction, two modern ones, and templates."""
    modern = ["We need 12 percent more by May 4 1998.", "The clinic opens at 7:30 a.m."]
    return Script(FICTION, modern, never or Never([]), seed)


@pytest.mark.parametrize(
    ("found", "written", "spoken"),
    [
        ("I saw 3 dogs and twenty one cats", "I saw three dogs and twenty-one cats.", None),
        ("He paid five dollars.", "He paid $5.", "He paid five dollars."),
        ("It was $4.50 at 7pm.", "It was $4.50 at 7:00 p.m.", "It was four dollars and fifty cents at seven p m."),
        ("On 4 May 1998 it rose by twelve percent", "On May 4th, 1998 it rose by 12%.",
         "On may fourth, nineteen ninety eight it rose by twelve percent."),
        ("We met at 7:30 in 1945.", "We met at 7:30 in 1945.", "We met at seven thirty in nineteen forty five."),
        ("five thousand six hundred men", "5,600 men.", "five thousand six hundred men."),
        ("A hundred thousand pardons!", "A hundred thousand pardons!", None),
        ("the twenty-first of them", "The 21st of them.", "The twenty first of them."),
        ("Doctor Smith lives at 1247 Oak Street.", "Dr. Smith lives at 1247 Oak Street.",
         "doctor Smith lives at twelve forty seven Oak Street."),
        ("Call 555-0199", "Call 555-0199.", "Call five five five, zero one, nine nine."),
        ("My name is Szymanski, S Z Y M A N S K I.", "My name is Szymanski, S Z Y M A N S K I.",
         None),
        ("The BBC and NASA", "The BBC and NASA.", None),
        ("i met the 4th on monday in room 12, platform nine", "I met the fourth on Monday in room twelve, platform 9.",
         "I met the fourth on Monday in room twelve, platform nine."),
        ("One hundred and five percent of a hundred percent", "105% of a hundred percent.",
         "one hundred and five percent of a hundred percent."),
        ("twenty-five dollars and five cents at seven a.m.", "$25.05 at 7:00 a.m.",
         "twenty five dollars and five cents at seven A m."),
        ("one two three", "One two three.", "One two three."),
        ("Is the colour grey to-day", "Is the color gray today.", None),
        ("“Yes,” he said — no; maybe…", "Yes, he said, no, maybe.", None),
        ("It has 16 gigabytes and 2 TVs.", "It has 16 GB and two TVs.", "It has sixteen gigabytes and two TVs."),
        ("It weighs 16.5 kilograms.", "It weighs 16.5 kg.", "It weighs sixteen point five kilograms."),
    ],
)  # fmt: skip
def test_found_text_comes_into_one_style_and_is_said(found: str, written: str, spoken: str | None) -> None:
    """Where no spoken form is given, a line is said as it is written."""
    assert styled(found) == written
    assert said(written) == f" {written if spoken is None else spoken}"
    assert styled(written) == written


@pytest.mark.parametrize(
    "found",
    [
        "",
        "...",
        "CHAPTER",
        "See http://example.org now.",
        "lettin' on",
        "a/b",
        "It is Mr.",
        "x = 3",
        "At seven thirty.",
    ],
)
def test_what_cannot_be_guessed_from_sound_is_refused(found: str) -> None:
    """Headings, addresses, dialect and signs are refused."""
    assert styled(found) is None


@given(st.text(max_size=60))
def test_any_text_is_styled_for_good_or_refused(text: str) -> None:
    """The style holds whatever comes in, and what is said has no digit."""
    written = styled(text)
    if written is not None:
        assert _WRITTEN.fullmatch(written)
        assert not re.search(r"\d", said(written))


@example(911)
@given(st.integers(0, 999_999))
def test_a_number_is_one_number_in_speech_and_writing(number: int) -> None:
    """Digits with commas, and words up to one hundred, come back from their spoken form."""
    written = styled(f"We have {number:,} of them.")
    assert written is not None
    assert styled(said(written)) == written


def test_lines_follow_the_style_and_no_digit_is_said() -> None:
    """This holds for all kinds of lines, generated and found."""
    lines = list(script(1).lines(1500))
    assert len({written for _, written in lines}) == 1500
    assert {kind for kind, _ in lines} >= {"fiction", "modern", "command", "call", "news", "short"}
    for _, written in lines:
        assert _WRITTEN.fullmatch(written), written
        assert _SPOKEN.fullmatch(said(written).strip()), written
        assert len(written.split()) <= 30


def test_every_template_can_be_filled() -> None:
    """Each template is filled several times: no slot is unknown, no brace or bracket is left, and some line fits the
    style."""
    import random

    chance = random.Random(5)
    slots = Slots(chance, Counter())
    for kind, (_, table) in templates().items():
        for template in table:
            lines = [expand(template, chance, slots) for _ in range(6)]
            assert not any(set("{}()|") & set(line) for line in lines), (kind, template)
            assert any(styled(line) for line in lines), (kind, lines)


def test_a_seed_gives_the_same_lines_and_another_gives_others() -> None:
    """All chance comes from the seed."""
    first, same, other = (list(script(seed).lines(200)) for seed in (3, 3, 4))
    assert first == same
    assert first != other


def test_no_sentence_of_a_test_comes_through() -> None:
    """It comes neither whole, nor inside a longer line, nor with its numbers written otherwise."""
    texts = [sentence.text for sentence in bench_sentences()]
    never = Never(texts)
    for text in texts:
        assert text in never
        assert text.upper() in never
    assert "They said that our teacher read the whole story aloud." in never
    assert "He carried nineteen umbrellas to the opera." not in never
    drawn = {written for _, written in script(1, Never(["A BIRD I THINK SIR SAID HOLLAND"])).lines(300)}
    assert not any("said Holland" in line for line in drawn)
    assert any("said Holland" in written for _, written in script(1).lines(300))


def test_texts_are_read(tmp_path: Path) -> None:
    """The readers take an index.jsonl, plain lines and packed ones. A line may hold several sentences, and short ones
    stay with the next."""
    (tmp_path / "index.jsonl").write_text('{"file": "a.opus", "text": "ONE TWO"}\n')
    (tmp_path / "list.txt").write_text("Three.\nFour.\n")
    assert list(transcripts(tmp_path / "index.jsonl")) == ["ONE TWO"]
    assert list(transcripts(tmp_path / "list.txt")) == ["Three.", "Four."]
    with lzma.open(tmp_path / "novel.xz", "wt") as file:
        file.write("She did not go. He went to the sea. Yes sir. I leave today.\n")
    assert list(sentences(tmp_path / "novel.xz")) == [
        "She did not go.",
        "He went to the sea.",
        "Yes sir. I leave today.",
    ]


def test_names_and_words_are_many() -> None:
    """The lists have names of many countries, and words that templates reach."""
    assert len(names("first")) + len(names("last")) >= 3000
    assert len(names("places")) >= 1000
    assert len(set(vocabulary())) >= 25_000
    counts = Counter[str]()
    made = script(2)
    for _, written in islice(made.lines(2000), 2000):
        counts.update(plain(written).split())
    assert sum(word in counts for word in vocabulary()) > 2500
