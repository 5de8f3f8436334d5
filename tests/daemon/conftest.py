"""Real daemons on real sockets around the real model."""

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codec.model import TtsModel
from codec.options import SpeakOptions
from daemon.loading import Loaded, Models
from daemon.serve import Background
from streaming.model import AsrModel
from tests.clips import Clip
from tests.daemon.chat_server import ChatServer
from tests.daemon.support import RATE, Client, Counts, Speech, Voice, eventually, finals, free_port, running


@pytest.fixture(scope="module", autouse=True)  # other rooms' tests come after these
def unhurried() -> Iterator[None]:
    """However slow or busy the machine of the tests is, it takes their sessions (test_admission.py tells otherwise)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engines.load.USABLE", 1e9)
        patch.setattr("engines.load.LATE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def models(asr_model: AsrModel) -> Models:
    """The model all daemons of these tests share."""
    return Models(Loaded.of(asr_model))


@pytest.fixture(scope="session")
def start(models: Models) -> Callable[..., AbstractContextManager[Background]]:
    """A daemon with settings of one's own."""
    return partial(running, models)


@pytest.fixture(scope="session")
def daemon(models: Models) -> Iterator[Background]:
    """A daemon with default settings."""
    with running(models) as background:
        yield background


@pytest.fixture(scope="session")
def tts_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TtsModel]:
    """A speaking model of random weights, small and quick: what it says is noise, how it says it is real."""
    directory = Path(__file__).parents[1] / "golden" / "speaking"
    model = TtsModel(directory, sessions=8, threads=1, voices=tmp_path_factory.mktemp("voices"))
    yield model
    model.close()


@pytest.fixture(scope="session")
def talk(models: Models, tts_model: TtsModel) -> Callable[..., AbstractContextManager[Background]]:
    """A daemon that also speaks, with settings of one's own."""
    both = Models(models.hearing, Loaded.of(tts_model))
    return partial(running, both, speakers=8)


@pytest.fixture(scope="session")
def talker(talk: Callable[..., AbstractContextManager[Background]]) -> Iterator[Background]:
    """A daemon that also speaks."""
    with talk() as background:
        yield background


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    """A chat endpoint."""
    with ChatServer() as running:
        yield running


@pytest.fixture
def chat(server: ChatServer, request: pytest.FixtureRequest) -> Iterator[ChatServer]:
    """The chat endpoint, with nothing remembered of other tests. What this one opened at ``partner`` asks no more when
    the next begins."""
    background: Background | None = request.getfixturevalue("partner") if "partner" in request.fixturenames else None
    server.forget()
    yield server
    assert background is None or eventually(lambda: background.hub.taken == 0)


@pytest.fixture(scope="module")
def partner(talk: Callable[..., AbstractContextManager[Background]], server: ChatServer) -> Iterator[Background]:
    """A daemon that hears, answers and speaks, also to Asterisk."""
    with talk(llm_url=server.url, llm_key="chat-key", audiosocket_port=free_port()) as background:
        yield background


@pytest.fixture
def client(daemon: Background) -> Client:
    """A client of the daemon with default settings."""
    return Client(daemon.url)


@pytest.fixture(scope="session")
def speech(clips: list[Clip]) -> Speech:
    """A short recording in which the model hears words."""
    return Speech.among(clips)


@pytest.fixture(scope="session")
def silence() -> bytes:
    """A second of nearly nothing."""
    noise = np.random.default_rng(7).normal(0, 3, RATE)
    return noise.astype("<i2").tobytes()


@pytest.fixture
def count(models: Models) -> Callable[[Background], Counts]:
    """Count what is in use now."""
    return partial(Counts.of, models)


@pytest.fixture(scope="session")
def voice(talker: Background) -> Voice:
    """A client of the daemon that also speaks."""
    return Voice(talker.url)


@pytest.fixture(scope="session")
def offline(tts_model: TtsModel) -> Callable[..., bytes]:
    """What the model says in this process, as linear16."""

    def speak(text: str, **options: Any) -> bytes:
        speaker = tts_model.speaker(SpeakOptions(**{"seed": 1, "sample_rate": 24_000, **options}))
        speaker.say(text)
        speaker.finish()
        samples = np.concatenate([e.samples for e in speaker.events() if hasattr(e, "samples")])
        speaker.close()
        return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()

    return speak


@pytest.fixture(scope="session")
def alone(daemon: Background, speech: Speech) -> str:
    """What a session alone hears in the recording."""
    return finals(Client(daemon.url).transcribe(speech.pcm, endpointing="false"))


@pytest.fixture
def bystander(client: Client, speech: Speech, alone: str) -> Generator[None]:
    """Another session of the same daemon, live while the test does its worst: it must hear the same as alone."""
    heard: list[str] = []
    done = threading.Event()

    def listen() -> None:
        # Without endpointing no silence is assumed where this thread stands still for a second.
        with client.open(endpointing="false") as socket:
            for start in range(0, len(speech.pcm), 3200):
                socket.send(speech.pcm[start : start + 3200])
                done.wait(0.02)
            done.wait(30)
            socket.send('{"type": "CloseStream"}')
            heard.append(finals(json.loads(message) for message in socket))

    thread = threading.Thread(target=listen)
    thread.start()
    yield
    done.set()
    thread.join(120)
    assert heard == [alone]
