"""A real daemon for the clients, on the model that the whole run shares."""

import ctypes.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from codec.model import TtsModel
from daemon.config import Settings
from daemon.loading import Loaded, Models
from daemon.serve import Background
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import Clip

Daemon = Callable[..., AbstractContextManager[Background]]

ALSA = Path("/usr/share/alsa/alsa.conf")
HERE = sys.platform == "linux" and ctypes.util.find_library("portaudio") is not None and ALSA.exists()
virtual = pytest.mark.skipif(not HERE, reason="needs PortAudio and ALSA's configuration (apt install libportaudio2)")

DEVICE = """
pcm.virtual_sound {{
    type file
    slave.pcm null
    file "{folder}/played.raw"
    infile "{folder}/recorded.raw"
    format raw
}}
pcm.paced_sound {{
    type file
    slave.pcm null
    file "| {python} {folder}/paced.py {folder}/paced.raw"
    format raw
}}
"""
PACED = """
import os, sys, time
played, start, count = open(sys.argv[1], "wb", buffering=0), time.monotonic(), 0
while piece := os.read(0, 4800):
    played.write(piece)
    count += len(piece)
    time.sleep(max(0, start + count / 48000 - time.monotonic()))
"""
"""Takes audio of 24 kHz no faster than a loudspeaker would."""


@pytest.fixture(scope="module", autouse=True)
def unhurried() -> Iterator[None]:
    """However slow or busy the machine of the tests is, it takes their sessions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engines.load.USABLE", 1e9)
        patch.setattr("engines.load.LATE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="session")
def daemon(asr_model: AsrModel) -> Daemon:
    """Makes daemons: ``with daemon(port=0, …) as background`` takes any setting."""
    models = Models(Loaded.of(asr_model))

    def make(**settings: Any) -> Background:
        chosen = Settings(**{"port": 0, "sessions": 8, **settings})
        return Background(chosen, lambda _: models, owns_models=False)

    return make


@pytest.fixture(scope="session")
def url(daemon: Daemon) -> Iterator[str]:
    """A daemon with default settings, for the whole run."""
    with daemon() as background:
        yield background.url


@pytest.fixture(scope="session")
def talking(asr_model: AsrModel, tts_model: TtsModel) -> Daemon:
    """Makes daemons that also speak; stored voices in a directory of the tests."""
    models = Models(Loaded.of(asr_model), Loaded.of(tts_model))

    def make(**settings: Any) -> Background:
        chosen = Settings(**{"port": 0, "sessions": 8, "speakers": 8, **settings})
        return Background(chosen, lambda _: models, owns_models=False)

    return make


@pytest.fixture(scope="session")
def talking_url(talking: Daemon) -> Iterator[str]:
    """A daemon that hears and speaks, with default settings, for the whole run."""
    with talking() as background:
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
    return heard_at_once(asr_model, speech)


def heard_at_once(model: AsrModel, audio: bytes) -> list[str]:
    """The final texts of linear16 at 16 kHz, heard in this process at once."""
    listener = model.listener(ListenOptions(interim=False))
    listener.feed(np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32768))
    listener.finish()
    events = listener.drain()
    listener.close()
    return [event.text for event in events if isinstance(event, Transcript) and event.is_final and event.text]


@pytest.fixture
def sound(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with two sound devices: what one records comes from a FIFO, what it plays goes to a file at once;
    the other plays into a file at the pace of a loudspeaker."""
    (tmp_path / "asound.conf").write_text(DEVICE.format(folder=tmp_path, python=sys.executable))
    (tmp_path / "paced.py").write_text(PACED)
    os.mkfifo(tmp_path / "recorded.raw")
    # ALSA opens the FIFO each time it looks at the device, and would wait for somebody to write.
    held = os.open(tmp_path / "recorded.raw", os.O_RDWR)
    yield {**os.environ, "ALSA_CONFIG_PATH": f"{ALSA}:{tmp_path / 'asound.conf'}", "FOLDER": str(tmp_path)}
    os.close(held)
