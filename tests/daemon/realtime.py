"""A plain client of /v1/realtime."""

import base64
import io
import json
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Final, get_args
from urllib.parse import urlencode

import numpy as np
import soundfile
import soxr
from openai.types.realtime import RealtimeServerEvent
from websockets.sync.client import ClientConnection, connect

from tests.clips import RATE
from tests.daemon.support import PATIENT

Event = dict[str, Any]

_PUBLISHED: Final[dict[str, Any]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(RealtimeServerEvent)[0])
}
"""OpenAI's own types of events, by the name of each."""
PIECE = 4800
"""Bytes of an append: 100 ms at 24 kHz."""
ASKED: Event = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What happened?"}]}
REPLY = "The boats came home at nine. Then it rained."
"""What the chat endpoint answers where it is told nothing else."""
LONG = tuple(f"This is sentence number {n} of a very long story. " for n in range(60))
"""An answer long enough to be spoken over, in the parts in which it comes."""


def at_24_khz(pcm: bytes) -> bytes:
    """linear16 at 16 kHz, resampled to what the protocol expects."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    return (np.clip(soxr.resample(samples, RATE, 24_000), -1, 1) * 32767).astype("<i2").tobytes()


def words(text: str) -> list[str]:
    """Bare words."""
    return "".join(c if c.isalnum() or c.isspace() else "" for c in text.lower()).split()


def alike(one: str, other: str) -> bool:
    """Whether two texts share most of their words: one was heard at another rate, or has a word that was taken back."""
    a, b = words(one), words(other)
    return len(set(a) & set(b)) >= 0.6 * max(len(set(a)), len(set(b)), 1)


def check_published(event: Event) -> None:
    """Hold an event against OpenAI's own types.

    Raises:
        pydantic.ValidationError: a client that checks would fail.
    """
    text = json.dumps(event)
    for rate in (8_000, 16_000, 48_000):  # of audio/pcm, which OpenAI has at 24 kHz only
        text = text.replace(f'"rate": {rate}}}', '"rate": 24000}')
    _PUBLISHED[event["type"]].model_validate_json(text)


def mulaw(pcm: bytes) -> bytes:
    """linear16 at 16 kHz as telephones have it: mulaw at 8 kHz."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / 32768
    file = io.BytesIO()
    soundfile.write(file, soxr.resample(samples, RATE, 8_000), 8_000, format="RAW", subtype="ULAW")
    return file.getvalue()


class Session:
    """One connection; every event that came is kept."""

    def __init__(self, socket: ClientConnection, *, beta: bool = False) -> None:
        self.socket, self.beta = socket, beta
        self.events: list[Event] = []

    def tell(self, kind: str, **fields: Any) -> None:
        """Send an event."""
        self.socket.send(json.dumps({"type": kind, **fields}))

    def append(self, pcm: bytes, piece: int = PIECE) -> None:
        """Send audio in pieces."""
        for start in range(0, len(pcm), piece):
            self.tell("input_audio_buffer.append", audio=base64.b64encode(pcm[start : start + piece]).decode())

    def update(self, **session: Any) -> Event:
        """Update the session; what it is then, or the error."""
        self.tell("session.update", session=session)
        event = self.until("session.updated", "error")
        return event.get("session") or event

    def next(self, timeout: float = 120) -> Event:
        """The next event."""
        event: Event = json.loads(self.socket.recv(timeout))
        self.events.append(event)
        if not self.beta:
            check_published(event)
        return event

    def heard_so_far(self) -> bool:
        """Whether a delta has come; takes what is there and waits for nothing."""
        with suppress(TimeoutError):
            while True:
                self.next(0.01)
        return any(event["type"].endswith("transcription.delta") for event in self.events)

    def until(self, *kinds: str, timeout: float = 120) -> Event:
        """The next event of one of these types."""
        deadline = time.monotonic() + timeout
        while True:
            event = self.next(max(0.01, deadline - time.monotonic()))
            if event["type"] in kinds:
                return event

    def of(self, kind: str) -> list[Event]:
        """All events of a type so far."""
        return [event for event in self.events if event["type"] == kind]

    @property
    def kinds(self) -> list[str]:
        """Types of all events so far."""
        return [event["type"] for event in self.events]


@contextmanager
def session(url: str, **query: Any) -> Generator[Session]:
    """A session whose ``session.created`` has come; ``options`` go to the client library."""
    options, beta = query.pop("options", {}), query.pop("beta", False)
    address = f"{url.replace('http', 'ws', 1)}/v1/realtime?{urlencode(query)}"
    with connect(address, proxy=None, **PATIENT | options) as socket:
        opened = Session(socket, beta=beta)
        assert opened.next()["type"] == "session.created"
        yield opened


def ask(live: Session, **response: Any) -> dict[str, Any]:
    """Say something in writing, and the answer when it is over."""
    live.tell("conversation.item.create", item=ASKED)
    live.tell("response.create", **({"response": response} if response else {}))
    return live.until("response.done")["response"]


def sound(live: Session) -> bytes:
    """All sound that came."""
    return b"".join(base64.b64decode(event["delta"]) for event in live.of("response.output_audio.delta"))
