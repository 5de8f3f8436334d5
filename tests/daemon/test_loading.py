"""Which models a daemon runs on."""

import shutil
import threading
from pathlib import Path

import pytest

from daemon.config import Settings
from daemon.loading import load_models
from engines import speed
from engines.manifest import ManifestError
from engines.sessions import OptionError
from engines.store import SEARCH_PATH, ModelNotFound
from tests.codec.sounds.voices import sounding

TINY = Path(__file__).parents[1] / "golden" / "speaking"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search path with a speaking model in it."""
    shutil.copytree(TINY, tmp_path / "pocket-tts-en")
    monkeypatch.setenv(SEARCH_PATH, str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("asked", ["auto", "pocket-tts-en", str(TINY)])
def test_it_speaks_where_there_is_a_voice(installed: Path, asked: str) -> None:
    models = load_models(Settings(tts_model=asked, sessions=1, speakers=3))
    assert models.names == "pocket-asr-en and pocket-tts-en"
    assert models.speaking is not None and models.speaking.model.sessions == 3
    models.close()


def test_it_hears_alone_if_told_so(installed: Path) -> None:
    models = load_models(Settings(tts_model="none", sessions=1))
    assert (models.speaking, models.names) == (None, "pocket-asr-en; it does not speak")
    models.close()


def test_what_is_named_must_be_there() -> None:
    with pytest.raises(ModelNotFound, match="no model named 'unheard-of'") as error:
        load_models(Settings(tts_model="unheard-of", sessions=1))
    assert error.value.__notes__ == ["model unheard-of"]


def test_a_broken_voice_is_told_and_leaves_nothing(installed: Path) -> None:
    """Not passed over in silence, even where none was named."""
    (installed / "pocket-tts-en" / "model.json").write_text("{")
    before = set(threading.enumerate())
    with pytest.raises(ManifestError) as error:
        load_models(Settings(sessions=1))
    assert error.value.__notes__ == ["model auto"]
    assert set(threading.enumerate()) <= before


def test_a_lexicon_is_loaded_with_the_voice(installed: Path, tmp_path: Path) -> None:
    """A bad line is told by its number; a voice that reads letters takes none; nothing stays open."""
    own = tmp_path / "words.txt"
    before = set(threading.enumerate())
    for line, told in (("gif h5", "line 1, 'gif': '5' is no letter"), ("gif jif", "pocket-tts-en reads letters")):
        own.write_text(line)
        with pytest.raises(OptionError, match="^lexicon: ") as error:
            load_models(Settings(sessions=1, lexicon=str(own)))
        assert told in str(error.value)
    assert set(threading.enumerate()) <= before
    sounding(TINY, tmp_path / "sounding")
    models = load_models(Settings(sessions=1, tts_model=str(tmp_path / "sounding"), lexicon=str(own)))
    models.close()


def test_warming_up_is_told_and_lets_one_session_in(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large models take work before they are warm; how many sessions they keep live is known only then."""
    monkeypatch.setattr("daemon.loading.SMALL_BYTES", 0)
    models = load_models(Settings(sessions=4))
    try:
        assert models.warming == ("pocket-asr-en", "pocket-tts-en")
        assert models.hearing.model.headroom == 1
        models.warm()
        assert models.warming == () and models.hearing.model.cost > 0
        assert models.speaking is not None and models.speaking.model.cost > 0
    finally:
        models.close()


def test_what_a_model_costs_is_kept_for_the_next_start(
    asr_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: what was measured stays. Nothing is written beside a model that is not the user's own."""
    monkeypatch.setattr("daemon.loading.SMALL_BYTES", 0)
    monkeypatch.setattr(speed, "_BUSY", 1e9)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    own = tmp_path / "hearsay" / "models" / "mine"
    shutil.copytree(asr_directory, own)

    def start(name: str) -> float:
        models = load_models(Settings(asr_model=name, tts_model="none", sessions=1))
        try:
            models.warm()
            return models.hearing.model.cost
        finally:
            models.close()

    first = start("mine")
    assert speed.measured(own) == pytest.approx(first, abs=1e-3)
    speed.note(own, 0.5)
    start("mine")
    assert speed.measured(own) == 0.5
    start(str(asr_directory))
    assert not (asr_directory / speed.FILE).exists()


def test_small_models_are_warm_at_once(installed: Path) -> None:
    models = load_models(Settings(sessions=4))
    assert models.warming == ()
    models.close()


def test_models_that_are_closed_end_their_warming(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.loading.SMALL_BYTES", 0)
    models = load_models(Settings(tts_model="none", sessions=1))
    models.close()
    models.warm()
    assert models.warming == ("pocket-asr-en",)


def test_a_model_that_cannot_keep_up_is_named(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it takes and what that means; nothing is said of one that can."""
    models = load_models(Settings(sessions=1))
    try:
        assert models.why_not_live == ""
        assert models.speaking is not None
        models.speaking.model.cost = 1.5
        assert models.why_not_live.startswith("pocket-tts-en takes 1.5 s of this machine for a second of its voice")
        monkeypatch.setattr(type(models.hearing.model), "cost", 2.0)
        assert models.why_not_live.startswith("pocket-asr-en takes 2.0 s of this machine for a second of speech")
        assert "A smaller model keeps up" in models.why_not_live
    finally:
        models.close()
