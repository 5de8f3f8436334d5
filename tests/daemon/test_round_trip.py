"""One daemon with the shipped voice and the shipped ear: what it says, it hears."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.wer import rate
from codec.model import TtsModel
from daemon.loading import Loaded, Models
from tests.daemon.support import running

SENTENCES = (
    "The museum opens at ten and closes at five.",
    "My neighbour planted roses along the fence.",
    "The old man fed the birds in the park.",
)


@pytest.fixture(scope="module")
def http(models: Models, tts_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A daemon on both embedded models."""
    speaking = TtsModel(tts_directory, sessions=1, voices=tmp_path_factory.mktemp("voices"))
    both = Models(models.hearing, Loaded.of(speaking))
    with running(both, speakers=1) as background, httpx.Client(base_url=background.url, timeout=120) as client:
        yield client
    speaking.close()


@pytest.mark.parametrize("format", ["wav", "mp3"])
def test_what_is_said_is_heard(http: httpx.Client, format: str) -> None:
    """Most of the words, and no more than were said."""
    pairs: list[tuple[str, str]] = []
    for text in SENTENCES:
        said = http.post("/v1/audio/speech", json={"input": text, "seed": 1, "response_format": format})
        assert said.status_code == 200
        heard = http.post("/v1/audio/transcriptions", files={"file": (f"said.{format}", said.content)}).json()["text"]
        pairs.append((text, heard))
    assert rate(pairs) < 0.5, pairs
