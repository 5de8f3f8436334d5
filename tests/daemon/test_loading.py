"""Which models a daemon runs on."""

import shutil
import threading
from pathlib import Path

import pytest

from daemon.config import Settings
from daemon.loading import load_models
from engines.manifest import ManifestError
from engines.store import SEARCH_PATH, ModelNotFound

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
    before = threading.active_count()
    with pytest.raises(ManifestError) as error:
        load_models(Settings(sessions=1))
    assert error.value.__notes__ == ["model auto"]
    assert threading.active_count() == before
