"""The sounds of lines are those of the runtime, with the author's marks; British voices say them their own way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.sounds.symbols import SYMBOLS
from tests.codec.sounds.voices import reader
from training.speech.sounds import MARKS, VOCABULARY, Sounds, british, said


def guess(word: str) -> str:
    """Give the sounds of a word that neither the dictionary nor a rule knows."""
    return "zˈɔɹk"


def sounds() -> Sounds:
    """Read by the shipped dictionary, with three British words."""
    return Sounds(reader(guess), frozenset({"bˈɑːθ", "hˈat", "fˈɑːðə"}))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hello, world.", " həlˈO, wˈɜɹld."),
        ("Water — hello…", " wˈɔTəɹ— həlˈO…"),
        ("I want to.", " ˌI wˈɑnt tˈu."),
        ("The BBC's API, APIs", " ðə bˌibˌisˈiz ˌApˌiˈI, ˌApˌiˈIz."),
        ("Flight 1247 at 7:00 p.m.", " flˈIt twˈɛlv fˈɔɹTi sˈɛvən æt sˈɛvən pˈi ˈɛm."),
        ("It is Anna, A N N A.", " ɪt ɪz ˈɑnə, ˈA ˈɛn ˈɛn ˈA."),
        ("xaqzrik", " zˈɔɹk."),
    ],
)
def test_a_line_is_read_as_the_runtime_reads_it(text: str, line: str) -> None:
    """Numbers, letters, taps, and weak words that a mark makes strong are as there, and what is not known is
    guessed."""
    assert sounds().said(text) == line


def test_the_digits_of_a_code_are_said_one_by_one() -> None:
    """A number with commas is no code."""
    assert said("It is 83921.") == " It is eight three nine two one."
    assert "eighty three thousand" in said("It is 83,921.")


@given(st.text(max_size=40))
def test_any_line_is_words_of_symbols_with_marks_behind_them(text: str) -> None:
    """Each of its characters has a number, in both accents."""
    line = sounds().said(text)
    assert set(line) <= SYMBOLS | set(MARKS) | {" "}
    assert not line or line[0] == " "
    assert sounds().tokens(text, "en-us") == [VOCABULARY[c] for c in line.strip()]
    assert len(sounds().tokens(text, "en-gb")) >= 0


@pytest.mark.parametrize(
    ("american", "known", "heard"),
    [
        ("wˈɔTəɹ", "", "wˈɔːtə"), ("hˈɑt", "", "hˈɒt"), ("fˈɑðəɹ", "fˈɑːðə", "fˈɑːðə"), ("bˈæθ", "bˈɑːθ", "bˈɑːθ"),
        ("mˈæθ", "mˈaθ", "mˈaθ"), ("ɡˌO", "", "ɡˌQ"), ("sˈi", "", "sˈiː"), ("hˈæpi", "", "hˈapi"), ("kˈɛɹ", "", "kˈɛː"),
        ("vˈɛɹi", "", "vˈɛɹi"), ("mˈɜɹdəɹ", "", "mˈɜːdə"), ("dˈɔɡ", "dˈɒɡ", "dˈɒɡ"),
    ],
)  # fmt: skip
def test_a_british_voice_says_american_sounds_its_own_way(american: str, known: str, heard: str) -> None:
    """The rules decide, and where one American vowel is two what is known of British words."""
    assert british(american, {known}) == heard
    assert all(c in VOCABULARY for c in heard)


def test_a_british_line_keeps_its_marks() -> None:
    """Marks are no part of the words that are looked up."""
    assert sounds().tokens("hello, bath!", "en-gb") == [VOCABULARY[c] for c in "həlˈQ, bˈɑːθ!"]
