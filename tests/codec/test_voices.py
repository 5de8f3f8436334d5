"""Stored voices: a vector in a file, never anything outside its directory."""

import os
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from codec.clone import check_reference
from codec.model import TtsModel
from codec.options import OptionError, SpeakOptions
from codec.voices import MAX_STORED, CannotClone, Reference, StoredVoice, Voices
from engines.manifest import read_tts
from tests.codec.talking import heard, say

GOLDEN = Path(__file__).parents[1] / "golden" / "speaking"


@pytest.fixture
def voices(tts_model: TtsModel, tmp_path: Path) -> Voices:
    """The model's voices with an empty store."""
    return Voices(tts_model.manifest, tmp_path)


def vector(voices: Voices, seed: int = 0) -> np.ndarray:
    """An embedding of the model's width."""
    return np.random.default_rng(seed).standard_normal(voices.width).astype(np.float32)


def test_a_stored_voice_comes_back_bit_for_bit(voices: Voices) -> None:
    """In float32; listed after the presets; replaced by one of the same name; gone once deleted."""
    presets = [v.id for v in voices.listed()]
    voices.store("Aunt-May", vector(voices))
    voices.store("aunt-may", vector(voices, 1))
    found = voices.find("AUNT-MAY")
    assert isinstance(found, StoredVoice)
    assert found.embedding.dtype == np.float32
    np.testing.assert_array_equal(found.embedding, vector(voices, 1))
    assert [(v.id, v.kind) for v in voices.listed()] == [(p, "preset") for p in presets] + [("aunt-may", "cloned")]
    voices.delete("aunt-may")
    assert [v.id for v in voices.listed()] == presets
    with pytest.raises(OptionError, match="voice: no stored voice"):
        voices.delete("aunt-may")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", ".hidden", "x" * 65, "naïve", "con\x00", "-x"])
def test_names_cannot_leave_the_store(voices: Voices, tmp_path: Path, name: str) -> None:
    """Neither when a voice is stored nor when one is looked up or deleted."""
    with pytest.raises(OptionError, match="^name: "):
        voices.store(name, vector(voices))
    with pytest.raises(OptionError, match="^voice: "):
        voices.find(name)
    with pytest.raises(OptionError, match="^voice: "):
        voices.delete(name)
    assert not list(tmp_path.rglob("*.npz"))


def test_presets_are_not_touched(voices: Voices) -> None:
    """They can be neither replaced nor deleted; the first is the default."""
    preset = voices.listed()[0].id
    with pytest.raises(OptionError, match="is a preset"):
        voices.store(preset, vector(voices))
    with pytest.raises(OptionError, match="is a preset"):
        voices.delete(preset)
    assert voices.find(None) == preset
    with pytest.raises(OptionError, match=f"voices: {preset}"):
        voices.find("nobody")


def test_a_store_has_an_end(voices: Voices, tmp_path: Path) -> None:
    """So many voices and no more."""
    voices.store("first", vector(voices))
    folder = next(tmp_path.iterdir())
    for i in range(MAX_STORED - 1):
        (folder / f"v{i}.npz").touch()
    with pytest.raises(OptionError, match=f"{MAX_STORED} voices are stored"):
        voices.store("another", vector(voices))
    voices.store("first", vector(voices, 2))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_only_files_are_voices(voices: Voices, tmp_path: Path) -> None:
    """A pipe or a directory is neither listed nor found, and takes nobody's place."""
    voices.store("kate", vector(voices))
    folder = next(tmp_path.rglob("kate.npz")).parent
    os.mkfifo(folder / "pipe.npz")
    (folder / "folder.npz").mkdir()
    assert [voice.id for voice in voices.listed() if voice.kind == "cloned"] == ["kate"]
    with pytest.raises(OptionError, match="no 'pipe'; voices: .*kate$"):
        voices.find("pipe")


def test_vectors_of_another_width_are_refused(voices: Voices, tmp_path: Path) -> None:
    """Made by another model, or damaged."""
    with pytest.raises(ValueError, match="embedding: "):
        voices.store("me", vector(voices)[:-1])
    voices.store("me", vector(voices))
    file = next(tmp_path.rglob("me.npz"))
    whole = file.read_bytes()
    for kept in (100, 0):
        file.write_bytes(whole[:kept])
        with pytest.raises(OptionError, match="voice: me cannot be read"):
            voices.find("me")


@pytest.mark.parametrize("damage", ["another compression", "encrypted"])
def test_a_damaged_archive_is_refused(voices: Voices, tmp_path: Path, damage: str) -> None:
    """zipfile has errors of its own for what one flipped bit makes of it."""
    voices.store("me", vector(voices))
    file = next(tmp_path.rglob("me.npz"))
    archive = bytearray(file.read_bytes())
    directory = archive.index(b"PK\x01\x02")
    archive[directory + (10 if damage == "another compression" else 8)] ^= 1
    file.write_bytes(archive)
    with pytest.raises(OptionError, match="voice: me cannot be read"):
        voices.find("me")


@pytest.mark.parametrize("codes", [np.zeros((5, 9), np.int64), np.full((5, 8), 99_999)])
def test_codes_of_another_model_are_refused(voices: Voices, codes: npt.NDArray[np.int64]) -> None:
    voices.store("me", vector(voices), Reference("Hello.", codes))
    with pytest.raises(OptionError, match="voice: me holds what are no codes"):
        voices.find("me")


def test_a_vector_that_holds_no_number_is_refused(voices: Voices) -> None:
    broken = vector(voices)
    broken[0] = np.nan
    voices.store("me", broken)
    with pytest.raises(OptionError, match="voice: me holds what is no number"):
        voices.find("me")


def test_a_model_without_encoders_says_so(tts_model: TtsModel) -> None:
    """Cloning names what is missing."""
    with pytest.raises(CannotClone, match="cannot clone voices: it has no speaker encoder"):
        Voices(read_tts(GOLDEN)).require_cloning()
    with pytest.raises(CannotClone, match="cannot clone voices with a text: it has no codec encoder"):
        tts_model.clone("me", np.zeros(48_000, np.float32), 24_000, "What I say.")


def pitch(wave: npt.NDArray[np.float32], rate: int) -> float:
    """Hertz: the median over parts of 40 ms in which something repeats."""
    size, found = rate // 25, list[float]()
    for part in wave[: len(wave) // size * size].reshape(-1, size):
        spectrum = np.fft.rfft(part - part.mean(), 2 * size)
        alike = np.fft.irfft(np.abs(spectrum) ** 2)[:size]
        low, high = rate // 400, rate // 60
        lag = low + int(alike[low:high].argmax())
        if alike[0] > 0.1 and alike[lag] > 0.5 * alike[0]:
            found.append(rate / lag)
    return float(np.median(found))


def test_a_clone_speaks_at_the_pitch_of_its_person(tts_model: TtsModel) -> None:
    """By the shipped model, of two of its own voices in another sentence."""
    text = "He drew a circle in the sand with a stick, and then he walked along the shore to the harbour."
    said = dict[str, float]()
    for name in ("hugo", "clara"):
        person = heard(say(tts_model, text, SpeakOptions(voice=name, seed=1)))
        clone = tts_model.clone(f"like-{name}", person, tts_model.sample_rate).id
        other = heard(say(tts_model, "The river rose quickly after the storm.", SpeakOptions(voice=clone, seed=1)))
        said[name] = pitch(other, tts_model.sample_rate)
        tts_model.voices.delete(clone)
    assert 80 < said["hugo"] < 150 < said["clara"] < 280


def test_silence_in_a_recording_is_no_part_of_the_voice(tts_model: TtsModel) -> None:
    """Around the speech and amid it, digital or with hiss; pauses stay. What is left must be long enough."""
    rate = tts_model.sample_rate
    person = heard(say(tts_model, "He drew a circle in the sand with a stick.", SpeakOptions(voice="hugo", seed=1)))
    hiss = np.random.default_rng(3).standard_normal(8 * rate).astype(np.float32) * 3e-4
    middle = len(person) // 2
    plain = tts_model.clone("plain", person, rate).embedding
    for silence in (np.zeros(8 * rate, np.float32), hiss):
        for parts in ((silence, person, silence), (person[:middle], silence, person[middle:])):
            found = tts_model.clone("amid", np.concatenate(parts), rate).embedding
            alike = found @ plain / np.linalg.norm(found) / np.linalg.norm(plain)
            assert alike > 0.8, alike
        with pytest.raises(OptionError, match=r"^reference: 0\.6 s of sound, the rest is silence"):
            tts_model.clone("amid", np.concatenate([silence, person[middle:][: rate * 2 // 5], silence]), rate)
    soft = np.concatenate([np.zeros(20 * rate, np.float32), person * 0.027])
    assert 0.5e-3 < np.sqrt(np.mean(soft**2)) < 1e-3
    tts_model.clone("amid", soft, rate)  # loud enough where there is speech
    knocked = person * 0.05
    knocked[: rate // 50] = 0.9  # what is much louder for a moment makes no silence of the speech
    assert check_reference(knocked, rate, 30.0) is knocked
    paused = np.concatenate([person, hiss[: rate // 2], person])
    assert check_reference(paused, rate, 30.0) is paused
    for name in ("plain", "amid"):
        tts_model.voices.delete(name)


def test_two_daemons_may_share_a_directory(tts_model: TtsModel, tmp_path: Path) -> None:
    """One writes and deletes while the other reads: it finds a whole voice, or is told in a sentence that none is."""
    mine, theirs = (Voices(tts_model.manifest, tmp_path) for _ in range(2))
    known = [vector(mine, seed) for seed in range(2)]
    over = threading.Event()

    def write() -> None:
        for i in range(60):
            mine.store("shared", known[i % 2])
            if i % 5 == 4:
                mine.delete("shared")
        mine.store("shared", known[0])
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        try:
            found = theirs.find("shared")
        except OptionError as error:
            assert str(error).startswith("voice: ") and "\n" not in str(error)
        else:
            assert isinstance(found, StoredVoice)
            assert any(np.array_equal(found.embedding, one) for one in known)
    writer.join()
    found = theirs.find("shared")
    assert isinstance(found, StoredVoice) and np.array_equal(found.embedding, known[0])
    assert [path.name for path in (tmp_path / tts_model.name).iterdir()] == ["shared.npz"]


def test_a_directory_that_takes_nothing_is_told(tts_model: TtsModel, tmp_path: Path) -> None:
    """As what it is, not as an option's fault: callers decide who hears of the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        voices = Voices(tts_model.manifest, tmp_path / "file")
        voices.store("someone", vector(voices))
