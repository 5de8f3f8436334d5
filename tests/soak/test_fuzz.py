"""Frames and forms of no sense, and of next to none: the daemon answers each with a reason, and lives on."""

import json
import os
import random
import threading
import time
from collections import Counter
from contextlib import suppress

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.clips import Clip
from tests.daemon.support import HTTP, Client, Speech, finals
from tests.daemon.test_serve import process

FRAMES = int(os.environ.get("HEARSAY_SOAK_FRAMES", "1000000"))
FORMS = int(os.environ.get("HEARSAY_SOAK_FORMS", "20000"))
A_CONNECTION = 500
"""Frames sent on one."""
SOCKETS = (
    "/v1/listen?encoding=linear16&sample_rate=16000", "/v1/listen?encoding=float32&sample_rate=48000&channels=8",
    "/v1/listen?encoding=mulaw&sample_rate=8000", "/v1/listen", "/v1/speak?seed=1", "/v2/listen", "/v1/realtime",
    "/v1/realtime?intent=transcription",
)  # fmt: skip
TEXTS = (
    {"type": "KeepAlive"}, {"type": "Finalize"}, {"type": "Flush"}, {"type": "Clear"}, {"type": "Speak", "text": "Hm."},
    {"type": "Configure", "thresholds": {}}, {"type": "session.update", "session": {"type": "transcription"}},
    {"type": "input_audio_buffer.append", "audio": "AAAA"}, {"type": "input_audio_buffer.commit"},
    {"type": "response.cancel"}, {"type": "input_audio_buffer.clear"},
)  # fmt: skip
FIELDS = (
    "model", "language", "prompt", "response_format", "temperature", "stream", "timestamp_granularities[]", "file",
    "include[]", "chunking_strategy", "keywords[]", "name", "text", "audio_sample", "nonsense",
)  # fmt: skip
HEADS = (b"RIFF\xff\xff\xff\xffWAVEfmt ", b"fLaC", b"OggS", b"ID3\x04", b"\x1aE\xdf\xa3", b"\0\0\0\x1cftypisom", b"")


def frame(chance: random.Random) -> str | bytes:
    """One message."""
    kind = chance.random()
    if kind < 0.5:
        return chance.choice(HEADS if chance.random() < 0.1 else (b"",)) + chance.randbytes(chance.randrange(1, 400))
    text = json.dumps(chance.choice(TEXTS))
    if kind < 0.8:
        at = chance.randrange(len(text))
        text = text[:at] + chance.choice(('"', "{", "null", "1e999", "\0", "é", "", "[" * 50)) + text[at + 1 :]
    return text


def form(chance: random.Random) -> bytes:
    """A multipart form with the boundary X, more or less."""
    parts: list[bytes] = []
    for _ in range(chance.randrange(6)):
        name = chance.choice(FIELDS)
        file = f'; filename="{chance.choice(("a.wav", "../../x", ""))}"' if chance.random() < 0.5 else ""
        value = chance.choice(HEADS) + chance.randbytes(chance.randrange(200))
        if chance.random() < 0.5:
            value = chance.choice(("json", "srt", "true", "en", "xx", "", "word", "1", "whisper-1")).encode()
        parts.append(f'--X\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode() + value + b"\r\n")
    body = b"".join(parts) + b"--X--\r\n"
    return body if chance.random() < 0.8 else body[: chance.randrange(len(body))]


def taken(socket: ClientConnection, codes: Counter[int]) -> None:
    """Read whatever comes until the connection ends."""
    with suppress(WebSocketException, OSError):
        for _ in socket:
            pass
    codes[socket.close_code or 1006] += 1


def test_nothing_that_is_sent_breaks_it(clips: list[Clip]) -> None:
    """No crash, no answer of 500, no traceback; afterwards a session hears as before."""
    chance, codes, statuses = random.Random(7), Counter[int](), Counter[int]()
    speech = Speech.among(clips)
    # The file of a form that ends within it is closed when starlette forgets it, which is at once.
    unwarned = "import warnings; warnings.simplefilter('ignore', ResourceWarning)"
    with process(unwarned, sessions="16", speakers="8", tts_model="auto", idle_seconds="5") as running:
        url = running.url()
        expected = finals(Client(url).transcribe(speech.pcm))
        began, sent = time.perf_counter(), 0
        while sent < FRAMES:
            try:
                with connect(url.replace("http", "ws", 1) + chance.choice(SOCKETS), proxy=None, close_timeout=5) as one:
                    reading = threading.Thread(target=taken, args=(one, codes))
                    reading.start()
                    with suppress(WebSocketException):
                        for _ in range(min(A_CONNECTION, FRAMES - sent)):
                            sent += 1
                            one.send(frame(chance))
                reading.join(60)
            except (WebSocketException, OSError) as error:  # refused: all places are taken for a moment
                statuses[getattr(getattr(error, "response", None), "status_code", 0)] += 1
                time.sleep(0.05)
        framed = time.perf_counter() - began
        for _ in range(FORMS):
            path = chance.choice(("/v1/audio/transcriptions", "/v1/audio/voices"))
            kind = "multipart/form-data; boundary=X" + chance.choice(("", "", "; charset=utf-7", "; boundary=Y"))
            answer = HTTP.post(url + path, content=form(chance), headers={"content-type": kind})
            statuses[answer.status_code] += 1
        formed = time.perf_counter() - began - framed
        print(
            f"\n{sent} frames in {framed:.0f} s, closed with {dict(codes)}; {FORMS} forms in {formed:.0f} s, "
            f"answered with {dict(statuses)}"
        )
        assert running.process.poll() is None
        assert not [status for status in statuses if status >= 500 and status not in (503, 507)]
        assert finals(Client(url).transcribe(speech.pcm)) == expected
        running.process.terminate()
        assert running.wait() == 0
    log = [line for line in running.lines if not line.startswith("hearsay ")]
    assert "Traceback" not in "\n".join(log), log
    assert len(log) < 20, "nobody fills the log"
