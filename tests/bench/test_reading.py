"""What counts as read right, and as a question that rises."""

from pathlib import Path

import numpy as np
import pytest

from audio.pitch import pitch, rise
from bench.material import Material
from bench.naturalness import Floats
from bench.reading import lines, mistakes, question_row, reading_rows
from bench.row import NotMeasured
from bench.sentences import Sentence
from bench.spoken import RATE, Spoken
from codec.sounds.reader import Reader
from engines.manifest import read_tts
from engines.store import default, find


@pytest.fixture(scope="module")
def reader() -> Reader:
    directory = find(default("tts"))
    parts = read_tts(directory).text.sounds
    assert parts is not None
    return Reader.load(parts, directory)


def glide(first: float, last: float, seconds: float = 1.0) -> Floats:
    """A buzz whose pitch lies at ``first`` for most of its time and moves to ``last`` in the final fifth."""
    hertz = np.interp(np.arange(round(seconds * RATE)) / RATE, [0, 0.8 * seconds, seconds], [first, first, last])
    phase = 2 * np.pi * np.cumsum(hertz) / RATE
    return np.asarray(sum(0.2 * np.sin(k * phase) / k for k in range(1, 6)), np.float32)


def test_as_many_lines_as_the_goals_count() -> None:
    kinds = [one.kind for one in lines()]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "acronyms": 40, "numbers": 100, "words": 100, "short": 20, "questions": 40, "statements": 10,
    }  # fmt: skip
    assert len({one.text for one in lines()}) == len(kinds)
    assert sum(one.text.count("*") for one in lines() if one.kind == "words") == 400


def test_acronyms_need_their_letters(reader: Reader) -> None:
    """They may be written together, apart, or with stops."""
    for heard in ("The BBC said so.", "The B B C said so.", "the b.b.c. said so"):
        assert mistakes("acronyms", "The BBC said so.", heard, reader) == []
    assert mistakes("acronyms", "The BBC said so.", "The baby sees. He said so.", reader) == ["BBC"]


def test_a_number_needs_the_whole_sentence(reader: Reader) -> None:
    """Digits or words; a word too many at the end is wrong."""
    line = "The answer is 42."
    for heard in ("The answer is 42.", "the answer is forty-two"):
        assert mistakes("numbers", line, heard, reader) == []
    for heard in ("The answer is 40 to.", "The answer is 42, sir.", ""):
        assert mistakes("numbers", line, heard, reader) == ["42."]


def test_a_word_may_be_written_as_another_that_sounds_the_same(reader: Reader) -> None:
    line = "The *queue* for the *bouquet* stall was long."
    assert mistakes("words", line, "The cue for the bouquet stall was long.", reader) == []
    assert mistakes("words", line, "The cute, for the book a stall was long.", reader) == ["queue", "bouquet"]
    assert mistakes("words", line, "The cue for the bouquet stall was long.", None) == ["queue"]


def test_pitch_is_found_and_silence_has_none() -> None:
    found = pitch(glide(120, 120), RATE)
    assert np.median(found) == pytest.approx(120, rel=0.02)
    assert not pitch(np.zeros(RATE, np.float32), RATE).any()


def test_what_rises_is_told_from_what_falls() -> None:
    """Semitones; nothing is said of what has hardly a voice."""
    up, down = rise(glide(120, 180), RATE), rise(glide(120, 80), RATE)
    assert up is not None and 3 < up < 7
    assert down is not None and down <= 0
    assert rise(glide(120, 180, 0.2), RATE) is None


def test_questions_and_statements_are_counted_apart() -> None:
    def said(kind: str, first: float, last: float) -> Spoken:
        return Spoken(Sentence("x", kind), "x", glide(first, last), ())

    waves = [said("questions", 120, 180)] * 3 + [said("questions", 120, 90)] + [said("statements", 120, 180)]
    row = question_row(waves, "owen")
    assert row.reached == "3; 1 of 1 statements" and row.met and "of 4" in row.name
    assert not question_row(waves[2:], "owen").met


def test_without_ears_nothing_is_measured(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="--peers moonshine"):
        reading_rows(Material(tmp_path, []))
