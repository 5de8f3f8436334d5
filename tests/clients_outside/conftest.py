"""A daemon of this checkout as a process of its own, and speech as clients of others send it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr
from support import CLIP, NODE, RATE, Daemon, Speech, heard, running


@pytest.fixture(scope="session")
def serve() -> Callable[..., AbstractContextManager[Daemon]]:
    """Start a daemon with flags of one's own, as a context."""
    return running


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    """A daemon with default settings and a key."""
    with running() as one:
        yield one


@pytest.fixture(scope="session")
def speech(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Speech:
    """A sentence of four seconds."""
    samples, rate = soundfile.read(CLIP, dtype="float32", always_2d=True)
    mono = soxr.resample(samples.mean(axis=1), rate, RATE)
    pcm = np.clip(np.rint(mono * 32768), -32768, 32767).astype("<i2")
    path = tmp_path_factory.mktemp("speech") / "speech.flac"
    soundfile.write(path, pcm, RATE)
    return Speech(pcm.tobytes(), path, heard(daemon, path))


@pytest.fixture(scope="session")
def pcm(speech: Speech) -> bytes:
    """The recording at 24 kHz, with a second of silence after it."""
    samples = np.frombuffer(speech.pcm + b"\0" * 32_000, "<i2").astype(np.float32) / 32768
    return (np.clip(soxr.resample(samples, RATE, 24_000), -1, 1) * 32767).astype("<i2").tobytes()


@pytest.fixture(scope="session")
def node() -> Callable[..., str]:
    """Run a script of this folder under node with the SDKs of package.json; what it prints."""
    if shutil.which("node") is None or not (NODE / "node_modules").is_dir():
        pytest.skip("node or its packages are not installed")

    def run(script: str, *arguments: str, **environment: str) -> str:
        # Packages are found from where the script stands.
        place = NODE / script
        if (Path(__file__).parent / script).exists():
            shutil.copyfile(Path(__file__).parent / script, place)
        done = subprocess.run(
            ["node", str(place), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
