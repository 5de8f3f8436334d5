"""Real daemons on real sockets around the real model."""

import gc
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon.config import Settings
from daemon.hub import Loaded
from daemon.serve import Background
from streaming.model import AsrModel
from tests.daemon.support import RATE, Client, Counts, Speech


@pytest.fixture(scope="session")
def loaded(asr_model: AsrModel) -> Loaded:
    """The model all daemons of these tests share."""
    return Loaded.of(asr_model)


@pytest.fixture(scope="session")
def start(loaded: Loaded) -> Callable[..., AbstractContextManager[Background]]:
    """A daemon with settings of one's own."""

    @contextmanager
    def running(**settings: Any) -> Generator[Background]:
        chosen = Settings(**{"port": 0, "sessions": 16, **settings})
        with Background(chosen, lambda _: loaded, owns_model=False) as background:
            yield background

    return running


@pytest.fixture(scope="session")
def daemon(start: Callable[..., AbstractContextManager[Background]]) -> Iterator[Background]:
    """A daemon with default settings."""
    with start() as background:
        yield background


@pytest.fixture
def client(daemon: Background) -> Client:
    """A client of the daemon with default settings."""
    return Client(daemon.url)


@pytest.fixture(scope="session")
def speech(clips: list[Any]) -> Speech:
    """A short recording in which the model hears words."""
    clip = min(clips, key=lambda clip: abs(clip.seconds - 4))
    path = next((Path(__file__).parent.parent / "data").rglob(Path(clip.name).name))
    return Speech((clip.samples * 32767).astype("<i2").tobytes(), path)


@pytest.fixture(scope="session")
def silence() -> bytes:
    """A second of nearly nothing."""
    noise = np.random.default_rng(7).normal(0, 3, RATE)
    return noise.astype("<i2").tobytes()


@pytest.fixture
def count(asr_model: AsrModel) -> Callable[[Background], Counts]:
    """Count what is in use now."""

    def counted(background: Background) -> Counts:
        gc.collect()
        return Counts(
            # The pool of workers is the daemon's: bounded, and gone with it.
            threads=sum(not thread.name.startswith("hearsay-worker") for thread in threading.enumerate()),
            descriptors=len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
            listeners=asr_model.live,
            sequences=asr_model.decoder.taken,
            places=background.hub.taken,
        )

    return counted
