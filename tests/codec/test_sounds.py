"""A model that reads sounds, from text to audio: the embedded one, with rules and a guesser of the tests' own."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codec.events import AudioChunk, PieceMark, SpeechWarning
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.readings import read_by, readings
from codec.script import END, Script
from codec.sounds.lexicon import Lexicon
from codec.sounds.reader import Reader
from codec.sounds.speller import Speller
from engines.manifest import ManifestError
from engines.sessions import OptionError
from tests.codec.sounds.voices import PARTS, RULES, sounding
from tests.codec.talking import heard, say

TINY = Path(__file__).parents[1] / "golden" / "speaking"
"""A model that reads letters."""
TEXT = (
    "The BBC's choir sang 42 songs — “Façade”, say; did you read it? I read a live record... "
    "Ms. Ray comes at 5 a.m. Łukasz and 你好 left."
)


@pytest.fixture(scope="module")
def directory(tts_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model directory."""
    return sounding(tts_directory, tmp_path_factory.mktemp("models") / "sounding")


@pytest.fixture(scope="module")
def model(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TtsModel]:
    """It, loaded."""
    loaded = TtsModel(directory, sessions=2, voices=tmp_path_factory.mktemp("voices"))
    yield loaded
    loaded.close()


def speller(model: TtsModel, lexicon: Lexicon | None = None) -> Speller:
    """A new session's."""
    assert model.engine.reader is not None
    return Speller(model.engine.reader, RULES.marks, lexicon)


def tokens(model: TtsModel, deltas: list[str]) -> list[list[int]]:
    """The tokens of every piece, as the talker takes them: each as soon as the text in ``deltas`` gives it."""
    script = Script(model.engine.prompt, model.manifest, english=True, speller=speller(model))
    found: list[list[int]] = []
    row: list[int] | None = None
    for delta in [*deltas, None]:
        if delta is None:
            script.mark(0)
        else:
            script.say(delta)
        while True:
            if row is None:
                if script.has_text(whole=False):
                    row = []
                elif not script.behind:
                    break
            elif (token := script.next_token()) == END:
                script.end_piece()
                found.append(row)
                row = None
            elif token is not None:
                row.append(token)
            elif not script.behind:
                break
    assert row is None and script.next_mark() == 0
    return found


PIECES = st.lists(
    st.sampled_from(
        [" ", "  ", "\n\n", ", ", ". ", "? ", " — ", "...", "'", "-", "the", "a", "A", "read", "to", "record", "BBC",
         "APIs", "42", "e", "s", "Łódź", "你", "café", "US", "I", "used", "live", "5 km", "Dr. ", "x-ray", "q"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@settings(max_examples=200)
@given(PIECES, st.lists(st.integers(1, 9), min_size=1, max_size=6))
@example("A plan. The end", [1])
@example("for the", [1, 3])
def test_any_cutting_gives_the_same_sounds(model: TtsModel, text: str, cuts: list[int]) -> None:
    """And those that a dry run shows."""
    deltas: list[str] = []
    at = turn = 0
    while at < len(text):
        deltas.append(text[at : at + cuts[turn % len(cuts)]])
        at, turn = at + len(deltas[-1]), turn + 1
    whole = tokens(model, [text])
    assert tokens(model, deltas) == whole
    shown = readings(text, RULES, english=True, speller=speller(model)).pieces
    assert [model.engine.prompt.encode(f" {piece.sounds}") for piece in shown] == whole


def test_words_before_a_mark_or_of_another_piece_are_forgotten(model: TtsModel) -> None:
    """He has read is the past, has, read and a new line's read are not."""
    assert (
        readings("He has read it.", RULES, english=True, speller=speller(model)).pieces[0].sounds == "hi hæz ɹˈɛd ɪt."
    )
    assert (
        readings("He has, read it.", RULES, english=True, speller=speller(model)).pieces[0].sounds
        == "hi hˈæz, ɹˈid ɪt."
    )
    pieces = readings("He has\n\nread it.", RULES, english=True, speller=speller(model)).pieces
    assert [piece.sounds for piece in pieces] == ["hi hæz", "ɹˈid ɪt."]
    encode = model.engine.prompt.encode
    assert tokens(model, ["He has\n\nread it."]) == [encode(" hi hæz"), encode(" ɹˈid ɪt.")]


def test_a_dry_run_shows_words_and_sounds(directory: Path) -> None:
    """A piece a line, with the author's marks and no other; what could not be read is named."""
    found = read_by(directory, TEXT, SpeakOptions())
    assert found.unread == "你好"
    assert [(piece.words, piece.sounds) for piece in found.pieces] == [
        ("The BBC's choir sang forty two songs— Façade,", "ðə bˌibˌisˈiz kwˈIəɹ sˈæŋ fˈɔɹTi tˈu sˈɔŋz— fəsˈɑd,"),
        ("say; did you read it?", "sˈA; dˈɪd ju ɹˈid ɪt?"),
        ("I read a live record…", "ˌI ɹˈid ɐ lˈIv ɹˈɛkəɹd…"),
        ("miz Ray comes at five A m.", "mˈɪz ɹˈA kˈʌmz æt fˈIv ˈA ˈɛm."),
        ("Łukasz and left.", "wˈukɑʃ ænd lˈɛft."),
    ]  # fmt: skip


def test_it_speaks_and_says_what_it_left_out(model: TtsModel) -> None:
    """Marks carry words, not sounds; of letters without a sound there is a warning."""
    events = say(model, "Łukasz and 你好 left.", SpeakOptions(seed=1))
    assert [event.text for event in events if isinstance(event, PieceMark)] == ["Łukasz and left."]
    assert heard(events).size > 0 and any(isinstance(event, AudioChunk) for event in events)
    warnings = [event for event in events if isinstance(event, SpeechWarning)]
    warned = [event.description for event in warnings if event.code == "letters_left_out"]
    assert warned == ["the model has no sounds for 你 好: they are left out"]


def test_what_is_not_normalised_is_sounds_too(model: TtsModel) -> None:
    """The model knows nothing else; digits are left out then, and named."""
    events = say(model, "The chef has 42.", SpeakOptions(seed=1, normalise=False))
    assert [event.text for event in events if isinstance(event, PieceMark)] == ["The chef has."]
    assert any(isinstance(event, SpeechWarning) and "4 2" in event.description for event in events)


def test_a_lexicon_of_the_session_comes_before_the_models_and_that_before_the_dictionary(
    directory: Path, tmp_path: Path
) -> None:
    """Both over the dictionary."""
    model = TtsModel(directory, sessions=1, voices=tmp_path, lexicon=Lexicon.of({"choir": "KOY-er", "gif": "jif"}))
    try:
        mine = model._speller(Lexicon.of({"gif": "gif"}))  # pyright: ignore[reportPrivateUsage]
        assert mine is not None and mine.spell(" choir gif chef", marked=False) == " kˈYəɹ ɡˈɪf ʃˈɛf"
    finally:
        model.close()


def test_a_model_that_reads_letters_takes_no_lexicon() -> None:
    """It says so before it speaks, or loads."""
    own = Lexicon.of({"gif": "jif"})
    with closing(TtsModel(TINY)) as model, pytest.raises(OptionError, match="^lexicon: pocket-tts-en reads letters"):
        model.speaker(SpeakOptions(lexicon=own))
    with pytest.raises(OptionError, match="^lexicon: pocket-tts-en reads letters"):
        TtsModel(TINY, lexicon=own)
    with pytest.raises(OptionError, match="^lexicon: pocket-tts-en reads letters"):
        read_by(TINY, "hi", SpeakOptions(lexicon=own))


def test_one_endless_word_is_read_a_little_at_a_time(model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """65,536 letters without a space: the first sounds cost a few words, not all."""
    read: list[int] = []
    original = Reader.read

    def counted(reader: Reader, word: str, *rest: object, **named: object) -> str:
        read.append(len(word))
        return original(reader, word, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Reader, "read", counted)
    script = Script(model.engine.prompt, model.manifest, english=True, speller=speller(model))
    script.say("qzxv" * 16_384)
    assert script.next_token() is not None
    assert len(read) == 1 and read[0] <= 64


@pytest.mark.parametrize("name", msgspec.structs.astuple(PARTS))
def test_a_missing_file_is_refused_when_the_model_is_loaded(directory: Path, name: str, tmp_path: Path) -> None:
    """By its name; nothing stays open."""
    broken = tmp_path / "sounding"
    shutil.copytree(directory, broken)
    (broken / name).unlink()
    with pytest.raises(ManifestError, match=name):
        TtsModel(broken, sessions=1)
