"""Real daemons on real sockets around the real model."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import pytest

from daemon.hub import Loaded
from daemon.serve import Background
from streaming.model import AsrModel
from tests.clips import Clip
from tests.daemon.support import RATE, Client, Counts, Speech, running


@pytest.fixture(scope="session")
def loaded(asr_model: AsrModel) -> Loaded:
    """The model all daemons of these tests share."""
    return Loaded.of(asr_model)


@pytest.fixture(scope="session")
def start(loaded: Loaded) -> Callable[..., AbstractContextManager[Background]]:
    """A daemon with settings of one's own."""
    return partial(running, loaded)


@pytest.fixture(scope="session")
def daemon(loaded: Loaded) -> Iterator[Background]:
    """A daemon with default settings."""
    with running(loaded) as background:
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
def count(asr_model: AsrModel) -> Callable[[Background], Counts]:
    """Count what is in use now."""
    return partial(Counts.of, asr_model)
