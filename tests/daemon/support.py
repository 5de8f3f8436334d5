"""Plain clients of real daemons, and what several of these tests ask."""

import asyncio
import gc
import io
import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx
import numpy as np
import numpy.typing as npt
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from daemon.config import Settings
from daemon.loading import Models
from daemon.serve import Background
from tests.audio.containers import contained
from tests.clips import DATA, RATE, Clip

HTTP = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), timeout=60, trust_env=False)
"""Every request on a connection of its own; to make a client for each costs more than most requests."""
SHORT = "The boats came home at nine."
"""What is said, where it does not matter what."""
LONG = " ".join([SHORT] * 30)
"""Long enough to be interrupted."""
PATIENT: Final[dict[str, Any]] = {"open_timeout": 120, "ping_timeout": 120, "close_timeout": 120}
"""For a WebSocket client on a machine that is busy or slow."""
POOLS = ("hearsay-worker", "hearsay-ears", "hearsay-decoding", "asyncio_")
"""Names that the threads of a daemon's pools begin with; asyncio's own looks up names of hosts."""
LONGEST = " ".join([SHORT] * 100)
"""So long that it is not over before somebody vanishes."""


@dataclass(frozen=True, slots=True)
class Speech:
    """A recording as it goes over the wire."""

    pcm: bytes
    """linear16, mono, 16 kHz."""
    path: Path

    @classmethod
    def among(cls, clips: Iterable[Clip]) -> "Speech":
        """A short one in which the model hears words."""
        clip = min(clips, key=lambda clip: abs(clip.seconds - 4))
        return cls((clip.samples * 32767).astype("<i2").tobytes(), next(DATA.rglob(clip.name)))

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.pcm) / (2 * RATE)


def damaged(speech: Speech) -> bytes:
    """The recording as an MP3 of which 300 bytes are lost."""
    data = bytearray(contained("mp3", np.frombuffer(speech.pcm, "<i2")[:, None], RATE))
    middle = len(data) // 2
    data[middle : middle + 300] = bytes(300)
    return bytes(data)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a session must not leave behind."""

    threads: int
    tasks: int
    descriptors: int
    sessions: int
    sequences: int
    places: int

    @classmethod
    def of(cls, models: Models, background: Background) -> "Counts":
        """What is in use now."""
        gc.collect()
        hearing, speaking = models.hearing.model, models.speaking.model if models.speaking is not None else None
        return cls(
            # The pools of threads are the daemon's: bounded, and gone with it.
            threads=sum(not thread.name.startswith(POOLS) for thread in threading.enumerate()),
            tasks=sum(issubclass(type(one), asyncio.Task) and not one.done() for one in gc.get_objects()),
            descriptors=len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
            sessions=hearing.live + (speaking.live if speaking is not None else 0),
            sequences=hearing.engine.decoder.taken + (speaking.engine.taken if speaking is not None else 0),
            places=background.hub.taken,
        )

    def __le__(self, other: "Counts") -> bool:
        """Nothing more than in ``other``."""
        return all(mine <= theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))


@contextmanager
def running(models: Models, **settings: Any) -> Generator[Background]:
    """A daemon around models that outlive it."""
    chosen = Settings(**{"port": 0, "sessions": 16, **settings})
    with Background(chosen, lambda _: models, owns_models=False) as background:
        yield background


def free_port() -> int:
    """One that nobody listens on now, and that no outgoing connection gets meanwhile: below 32768."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise OSError("a hundred ports are taken")


class Client:
    """A plain WebSocket client of one daemon."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.socket_url = url.replace("http", "ws", 1)

    def open(self, *, raw: bool = True, **query: Any) -> AbstractContextManager[ClientConnection]:
        """A connection to /v1/listen; with ``raw`` the query says linear16 at 16 kHz."""
        options = query.pop("options", {})
        shape = {"encoding": "linear16", "sample_rate": RATE} if raw else {}
        text = urlencode({**shape, **query}, doseq=True)
        return connect(f"{self.socket_url}/v1/listen?{text}", proxy=None, **PATIENT | options)

    def transcribe(self, pcm: bytes, *, piece: int = 3200, **query: Any) -> list[dict[str, Any]]:
        """All messages of one stream that is sent as fast as it goes."""
        with self.open(**query) as socket:
            send(socket, pcm, piece)
            socket.send('{"type": "CloseStream"}')
            messages = [json.loads(message) for message in socket]
            assert socket.close_code == 1000, socket.close_reason
            return messages


def send(socket: ClientConnection, pcm: bytes, piece: int = 3200) -> None:
    """Send audio in pieces."""
    for start in range(0, len(pcm), piece):
        socket.send(pcm[start : start + piece])


def finals(messages: Iterable[dict[str, Any]]) -> str:
    """The text of a stream: its finals, joined by one space."""
    return " ".join(
        text
        for message in messages
        if message["type"] == "Results" and message["is_final"]
        for text in [message["channel"]["alternatives"][0]["transcript"]]
        if text
    )


def eventually(check: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether ``check`` holds within some seconds."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def decoded(data: bytes, name: str) -> tuple[npt.NDArray[np.float32], int]:
    """(mono samples, rate) of a file, by FFmpeg; ``pcm`` has no header."""
    if name == "pcm":
        whole = len(data) // 2 * 2
        return np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(32768), 24_000
    import av

    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        resampler = av.AudioResampler(format="flt", layout="mono", rate=stream.rate)
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        return np.concatenate([frame.to_ndarray()[0] for frame in frames]), stream.rate


class Voice:
    """A plain client of one daemon's /v1/speak."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.socket_url = url.replace("http", "ws", 1) + "/v1/speak"

    def open(self, **query: Any) -> AbstractContextManager[ClientConnection]:
        """A connection; ``options`` go to the client library."""
        options = query.pop("options", {})
        return connect(f"{self.socket_url}?{urlencode({'seed': 1, **query})}", proxy=None, **PATIENT | options)

    def speak(self, *texts: str, **query: Any) -> tuple[bytes, list[dict[str, Any]]]:
        """All audio and all messages of a stream that says ``texts`` and closes."""
        with self.open(**query) as socket:
            for text in texts:
                tell(socket, "Speak", text=text)
            tell(socket, "Close")
            audio, messages = taken(socket)
            assert socket.close_code == 1000, socket.close_reason
            return audio, messages


def tell(socket: ClientConnection, kind: str, **fields: Any) -> None:
    """Send a message of that type."""
    socket.send(json.dumps({"type": kind, **fields}))


def taken(socket: Iterable[str | bytes]) -> tuple[bytes, list[dict[str, Any]]]:
    """Everything until the stream's end, whatever its code: audio, and messages."""
    audio: list[bytes] = []
    messages: list[dict[str, Any]] = []
    with suppress(ConnectionClosedError):
        for message in socket:
            if isinstance(message, bytes):
                audio.append(message)
            else:
                messages.append(json.loads(message))
    return b"".join(audio), messages


def until(socket: ClientConnection, kind: str, timeout: float = 120) -> tuple[bytes, list[dict[str, Any]]]:
    """Audio and messages up to the next one of that type, which is the last."""
    audio: list[bytes] = []
    messages: list[dict[str, Any]] = []
    deadline = time.monotonic() + timeout
    while not messages or messages[-1]["type"] != kind:
        message = socket.recv(max(0.01, deadline - time.monotonic()))
        if isinstance(message, bytes):
            audio.append(message)
        else:
            messages.append(json.loads(message))
    return b"".join(audio), messages


def same(one: bytes, other: bytes) -> bool:
    """Whether two linear16 are the same sound: groups follow the clock, and rounding follows the groups."""
    a, b = np.frombuffer(one, "<i2").astype(int), np.frombuffer(other, "<i2").astype(int)
    return a.size == b.size > 0 and int(np.abs(a - b).max()) <= 2
