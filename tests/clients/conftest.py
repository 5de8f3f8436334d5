"""A real daemon for the clients, on the model that the whole run shares."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from daemon.config import Settings
from daemon.hub import Loaded
from daemon.serve import Background
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import Clip

Daemon = Callable[..., AbstractContextManager[Background]]


@pytest.fixture(scope="session")
def daemon(asr_model: AsrModel) -> Daemon:
    """Makes daemons: ``with daemon(port=0, …) as background`` takes any setting."""
    loaded = Loaded.of(asr_model)

    def make(**settings: Any) -> Background:
        chosen = Settings(**{"port": 0, "sessions": 8, **settings})
        return Background(chosen, lambda _: loaded, owns_model=False)

    return make


@pytest.fixture(scope="session")
def url(daemon: Daemon) -> Iterator[str]:
    """A daemon with default settings, for the whole run."""
    with daemon() as background:
        yield background.url


def pcm(samples: npt.NDArray[np.float32]) -> bytes:
    """Samples as linear16."""
    return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()


@pytest.fixture(scope="session")
def speech(clips: list[Clip]) -> bytes:
    """Two utterances with a pause between them, linear16 at 16 kHz."""
    first, second = [clip for clip in clips if 2 < clip.seconds < 4][:2]
    pause = np.zeros(24_000, np.float32)
    return pcm(np.concatenate([first.samples, pause, second.samples]))


@pytest.fixture(scope="session")
def offline(asr_model: AsrModel, speech: bytes) -> list[str]:
    """The final texts of ``speech``, heard in this process at once."""
    listener = asr_model.listener(ListenOptions(interim=False))
    events = listener.feed(np.frombuffer(speech, "<i2").astype(np.float32) / np.float32(32768)) + listener.finish()
    listener.close()
    return [event.text for event in events if isinstance(event, Transcript) and event.is_final and event.text]
