"""People who are told by their names: what makes a print, how it is kept, and when a name is told."""

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.lane import at_once
from engines.sessions import OptionError
from streaming.events import SpeakerNamed, Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.people import MOST_PEOPLE, People, checked, voice_print
from streaming.speakers import NAMED, Person, SpeakerModel, Speakers
from streaming.vad import VoiceModel
from tests.clips import DATA, RATE, dialogue, read_clip
from tests.streaming.listening import finals, finish, hear, listen
from tests.streaming.test_speakers import drawn, near, numbers, said

ANNA, BEN = "clips/9460fd864aba.opus", "clips/9a9411169c0c.opus"
"""Clips of the two of the dialogue that are not in it."""


@pytest.fixture(scope="module")
def encoder() -> SpeakerModel:
    """The bundled speaker encoder."""
    return SpeakerModel.load()


@pytest.fixture(scope="module")
def vad() -> VoiceModel:
    """The bundled voice activity."""
    return VoiceModel.load()


@pytest.fixture(scope="module")
def anna(encoder: SpeakerModel, vad: VoiceModel) -> Person:
    """The reader who begins the dialogue."""
    return Person("Anna", at_once(voice_print(encoder, vad, [read_clip(DATA / ANNA).samples])))


def names(final: Transcript) -> list[str | None]:
    """How each word's speaker is called."""
    return [word.called for word in final.words]


# ---------------------------------------------------------------- prints


def test_a_print_is_of_the_voice_and_not_of_the_recording(encoder: SpeakerModel, vad: VoiceModel, anna: Person) -> None:
    """Louder, with silence around it, in two pieces: the same person; another one is far."""
    clip = read_clip(DATA / ANNA).samples
    silence = np.zeros(3 * RATE, np.float32)
    for recordings in (
        [np.concatenate([silence, 0.2 * clip, silence])],
        [clip[: len(clip) // 2], clip[len(clip) // 2 :]],
    ):
        assert at_once(voice_print(encoder, vad, recordings)) @ anna.print > 0.9
    assert at_once(voice_print(encoder, vad, [read_clip(DATA / BEN).samples])) @ anna.print < NAMED - 0.2


def test_what_is_no_recording_of_one_person_is_refused(encoder: SpeakerModel, vad: VoiceModel) -> None:
    """Silence, noise, chords, a word, two people: each says what is wrong, the limit and what to do."""
    time = np.arange(6 * RATE) / RATE
    chords = sum(np.sin(2 * np.pi * hertz * time) for hertz in (220, 277, 330)) * 0.1
    noise = np.random.default_rng(1).normal(0, 0.1, 6 * RATE)
    short = read_clip(DATA / ANNA).samples[: RATE // 1]
    both = np.concatenate([read_clip(DATA / clip).samples[: 8 * RATE] for clip in (ANNA, BEN)])
    for sound in (np.zeros(0), np.zeros(5 * RATE), noise, chords, short):
        with pytest.raises(OptionError, match=r"s of speech in it, at least 1.5 s is needed: record one person"):
            at_once(voice_print(encoder, vad, [np.asarray(sound, np.float32)]))
    with pytest.raises(OptionError, match=r"more than one voice in it.* at least 80 % must: record one person alone"):
        at_once(voice_print(encoder, vad, [both]))


# ---------------------------------------------------------------- the store


def test_prints_are_kept_for_their_owner_alone(tmp_path: Path, anna: Person) -> None:
    """Under no name that a listing or a log tells; replaced, whatever its case; gone when removed."""
    assert repr(anna) == "Person(name='Anna')"
    people = People(tmp_path / "people")
    assert people.all() == []
    people.store(anna)
    (file,) = people.directory.iterdir()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(people.directory.stat().st_mode) == 0o700
    assert "anna" not in file.name.lower()
    people.store(Person("anna", drawn(1)[0]))
    (known,) = people.all()
    assert known.name == "anna" and (known.print == drawn(1)[0]).all()
    people.remove(" ANNA ")
    assert people.all() == [] and not list(people.directory.iterdir())
    with pytest.raises(OptionError, match="no voice print of 'anna' is stored; none is"):
        people.remove("anna")


def test_a_print_that_is_of_no_use_is_left_out(
    tmp_path: Path, anna: Person, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken one, and one of another encoder; the log tells it without a name, and it can be removed."""
    people = People(tmp_path)
    people.store(anna)
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    assert [one.name for one in people.all()] == ["Anna"]
    monkeypatch.setattr("streaming.people._encoder", lambda: "another")
    assert people.all() == [] and "Anna" not in caplog.text and caplog.text.count("add it again") == 3
    people.remove("Anna")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_only_files_are_prints(tmp_path: Path, anna: Person, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody ever writes into a pipe that lies there, so whoever opened it would wait for ever."""
    people = People(tmp_path)
    people.store(anna)
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "device.npz").symlink_to("/dev/zero")
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(people.all)
        try:
            assert [one.name for one in found.result(timeout=5)] == ["Anna"] and not caplog.text
        finally:
            if not found.done():  # The thread must end: whoever writes lets it go on.
                (tmp_path / "pipe.npz").write_bytes(b"")


def test_there_is_a_most(tmp_path: Path) -> None:
    """One who is known already may be replaced."""
    people = People(tmp_path)
    for number, one in enumerate(drawn(MOST_PEOPLE)):
        people.store(Person(f"p{number}", one))
    people.store(Person("p0", drawn(1)[0]))
    with pytest.raises(OptionError, match=f"{MOST_PEOPLE} people are stored, which is the limit; remove one first"):
        people.store(Person("another", drawn(1)[0]))


@pytest.mark.parametrize("name", ["Anna", "Zoë  B.", "李 明", "d'Arc", "आनंद", "speaker_2", "a", "Al", "علی\u200cرضا"])
def test_names_that_can_be_told(name: str) -> None:
    assert checked("name", name) == " ".join(name.split())


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "A",
        "AB",
        "<v>",
        "a\nb:",
        "a" * 65,
        "\u202eanna",
        "a:b",
        "a/b",
        "\u3164",
        "\u0301",
        "...",
        "A\ufe0f",
        "\uff21",
        "\u200cAnna",
    ],
)
def test_names_that_cannot(name: str) -> None:
    """Letters of speakers who have none, and what would be read as marks."""
    if name == "a\nb:":
        name = "a:\nb"
    with pytest.raises(OptionError, match="^who: "):
        checked("who", name)


# ---------------------------------------------------------------- a session


def test_a_name_is_told_once_it_is_sure_and_stays(encoder: SpeakerModel) -> None:
    """From the first final on if that is long enough; what was told by a letter is not told anew, but a message says
    who it was. A stranger has none."""
    a, b, c = drawn(3)
    speakers = Speakers(encoder, [Person("Anna", a), Person("Ben", b)], keep=False)
    final, changes = said(speakers, [near(a, i) for i in range(4)])
    assert set(names(final)) == {"Anna"} and changes == []
    short, changes = said(speakers, [near(b, i) for i in range(2)])
    assert (set(names(short)), changes) == ({"B"}, [])
    final, changes = said(speakers, [near(b, 20 + i) for i in range(4)])
    assert set(names(final)) == {"Ben"} and set(numbers(final)) == {1} and changes == [SpeakerNamed(1, "Ben")]
    final, changes = said(speakers, [near(c, 40 + i) for i in range(6)])
    assert (set(names(final)), changes) == ({"C"}, [])
    far, changes = said(speakers, [near(b, 60 + i, 0.9) for i in range(2)])
    assert set(names(far)) == {"Ben"} and changes == []


def test_who_is_stored_by_two_names_is_known_by_one(encoder: SpeakerModel) -> None:
    """By that of the nearer print; two prints of one person do not make each other unsure."""
    a = drawn(1)[0]
    speakers = Speakers(encoder, [Person("Anna", near(a, 1, 0.3)), Person("Annie", near(a, 2, 0.4))], keep=False)
    final, _ = said(speakers, [near(a, 10 + i, 0.3) for i in range(4)])
    assert set(names(final)) == {"Anna"}


def test_names_change_no_number(encoder: SpeakerModel) -> None:
    """Who is known to a session has the number that they would have without, and the confidence."""
    a, b, c = drawn(3)
    order = [a, b, a, c, b, a, c]
    found = [
        [said(one, [near(voice, 10 * i + j) for j in range(4)])[0] for i, voice in enumerate(order)]
        for one in (Speakers(encoder, keep=False), Speakers(encoder, [Person("Ben", b)], keep=False))
    ]
    assert [numbers(final) for final in found[0]] == [numbers(final) for final in found[1]]
    assert [set(names(final)) for final in found[1]] == [{"A"}, {"Ben"}, {"A"}, {"C"}, {"Ben"}, {"A"}, {"C"}]


def test_a_file_is_judged_again_with_names(encoder: SpeakerModel) -> None:
    """All finals have them, and who has one name is one speaker."""
    a, b, _ = drawn(3)
    far = (a + 1.2 * b) / np.linalg.norm(a + 1.2 * b)  # Anna, as she sounds through another microphone
    people = [Person("Anna", a), Person("Anna", far)]
    speakers = Speakers(encoder, people, keep=True)
    heard = [said(speakers, [near(v, 10 * i + j, 0.3) for j in range(3)])[0] for i, v in enumerate((a, far, a, far))]
    settled = speakers.settled(heard)
    assert {name for final in settled for name in names(final)} == {"Anna"}
    assert {number for final in settled for number in numbers(final)} == {0}


@settings(max_examples=3)
@given(cuts=st.lists(st.integers(400, 3 * RATE), min_size=1, max_size=6), interim=st.booleans())
def test_names_are_the_same_for_any_cut(asr_model: AsrModel, anna: Person, cuts: list[int], interim: bool) -> None:
    """Her first sentence is too short to be sure; with her second one it is said who that was."""
    options = ListenOptions(interim=interim, speakers=True, known=(anna,))
    events = listen(asr_model, dialogue(), options, cuts)
    assert [names(final)[0] for final in finals(events)][:4] == ["A", "B", "Anna", "B"]
    place = events.index(SpeakerNamed(0, "Anna"))
    assert [names(final)[0] for final in finals(events[:place])] == ["A", "B", "Anna"]
    assert {name for final in finals(events[place:]) for name in names(final)} == {"Anna", "B"}


def test_a_model_makes_people_of_recordings(asr_model: AsrModel, anna: Person) -> None:
    """In its lane, the same print; and a file's second judgement names them too."""
    made = asr_model.person("Anna", [read_clip(DATA / ANNA).samples])
    assert made.name == "Anna" and (made.print == anna.print).all()
    with pytest.raises(OptionError, match="^name: "):
        asr_model.person("A", [])
    listener = asr_model.listener(ListenOptions(interim=False, speakers=True, known=(made,)), live=False)
    heard = [e for e in hear(listener, dialogue()) + finish(listener) if isinstance(e, Transcript) and e.is_final]
    assert {name for final in listener.settled(heard) for name in names(final)} == {"Anna", "B"}
