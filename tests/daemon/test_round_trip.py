"""One daemon with the shipped voice and the shipped ear: what it says, it hears, and when."""

import base64
import difflib
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
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


def test_words_are_spoken_when_they_are_said_to_be(http: httpx.Client) -> None:
    """Begins of words against those that the ear finds in the sound, which are on a grid of some .04 s themselves and
    lie .06 s early: half within .1 s, nine of ten within .25 s, with another voice than the lengths were fitted to."""
    away: list[float] = []
    for text in SENTENCES:
        body = {"input": text, "seed": 1, "voice": "maeve", "response_format": "wav", "stream": False}
        said = http.post("/dev/captioned_speech", json=body).json()
        heard = http.post(
            "/v1/audio/transcriptions",
            files={"file": ("said.wav", base64.b64decode(said["audio"]))},
            data={"response_format": "verbose_json", "timestamp_granularities[]": "word"},
        ).json()["words"]
        told = [bare(word["word"]) for word in said["timestamps"]]
        assert told == [bare(word) for word in text.split()]
        same = difflib.SequenceMatcher(None, told, [bare(word["word"]) for word in heard], autojunk=False)
        away += [
            abs(said["timestamps"][block.a + i]["start_time"] - heard[block.b + i]["start"])
            for block in same.get_matching_blocks()
            for i in range(block.size)
        ]
    assert len(away) > 12
    print(f"{len(away)} words, median {np.median(away):.3f} s, nine of ten within {np.quantile(away, 0.9):.3f} s")
    assert np.median(away) < 0.1 and np.quantile(away, 0.9) < 0.25


def bare(word: str) -> str:
    """A word in small letters without marks."""
    return word.lower().strip(".,")
