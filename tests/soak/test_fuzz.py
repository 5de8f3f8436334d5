"""What nobody sends in his senses: the daemon answers each with a reason, and lives on."""

import asyncio
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from aiortc.exceptions import InvalidStateError
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.clips import Clip
from tests.daemon.caller import calling
from tests.daemon.chat_server import ChatServer
from tests.daemon.process import Process, process
from tests.daemon.support import HTTP, Client, Speech, eventually, finals, free_port
from tests.soak.odd import FORMS as FORM_PATHS
from tests.soak.odd import Odd

FRAMES = int(os.environ.get("HEARSAY_SOAK_FRAMES", "1000000"))
FORMS = int(os.environ.get("HEARSAY_SOAK_FORMS", "20000"))
SEED = int(os.environ.get("HEARSAY_SOAK_SEED", "7"))
"""Runs of different seeds send different things, so that many short ones are as good as a long one."""
A_CONNECTION = 500
"""Frames, or events of Wyoming's, sent on one."""
ANSWERED = (501, 503, 507)
"""Above 499, and what was promised: what it does not do, it is full, its disk is."""


def taken(connection: ClientConnection, codes: Counter[int]) -> None:
    """Read whatever comes until the connection ends."""
    with suppress(WebSocketException, OSError):
        for _ in connection:
            pass
    codes[connection.close_code or 1006] += 1


def web(odd: Odd, running: Process, url: str, most: int, codes: Counter[int], statuses: Counter[int]) -> int:
    """One WebSocket, and how much was sent on it."""
    path, query = odd.socket()
    sent = 0
    try:
        with connect(f"{url.replace('http', 'ws', 1)}{path}?{query}", proxy=None, close_timeout=5) as one:
            reading = threading.Thread(target=taken, args=(one, codes))
            reading.start()
            with suppress(WebSocketException):
                while sent < most:
                    sent += 1
                    one.send(odd.frame(path))
        reading.join(60)
    except (WebSocketException, OSError) as error:  # refused
        assert running.process.poll() is None
        status = getattr(getattr(error, "response", None), "status_code", 0)
        statuses[status] += 1
        if status == 429:
            time.sleep(0.05)
    return sent


def plain(port: int, most: int, made: Callable[[], bytes]) -> int:
    """One connection of Wyoming's or AudioSocket's, and how much was sent on it."""
    sent = 0
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as one:
        one.settimeout(0.001)
        while sent < most:
            sent += 1
            one.sendall(made())
            with suppress(TimeoutError):
                if not one.recv(1 << 16):
                    break
    return sent


async def called(odd: Odd, url: str, most: int, speech: bytes) -> int:
    """One call by WebRTC, in which somebody speaks, and how much was sent in its data channel."""
    sent = 0
    with suppress(AssertionError, TimeoutError, InvalidStateError):  # It is refused, ends or never opens.
        async with calling(url) as caller:
            caller.microphone.say(speech)
            while sent < most and not caller.closed.is_set():
                sent += 1
                with suppress(ValueError):  # It is larger than a message may be.
                    caller.channel.send(odd.frame("/v1/realtime"))
                await asyncio.sleep(0.05 if caller.channel.bufferedAmount > 1 << 16 else 0.001)
    return sent


def test_nothing_that_is_sent_breaks_it(clips: list[Clip]) -> None:
    """No crash, no answer of 500, no traceback; afterwards a session hears as before."""
    speech = Speech.among(clips)
    odd, codes, statuses = Odd(SEED, speech.pcm, speech.path.read_bytes()), Counter[int](), Counter[int]()
    # The file of a form that ends within it is closed when starlette forgets it, which is at once.
    unwarned = "import warnings; warnings.simplefilter('ignore', ResourceWarning)"
    # Nobody comes to most of the calls that are offered, so they must not hold their slots for long.
    settings = {
        "sessions": "16",
        "speakers": "8",
        "tts_model": "auto",
        "idle_seconds": "5",
        "send_timeout_seconds": "2",
    }
    port, calls = free_port(), free_port()
    with (
        ChatServer() as chat,
        process(unwarned, **settings, wyoming_port=str(port), audiosocket_port=str(calls), llm_url=chat.url) as running,
    ):
        url = running.url()
        expected = finals(Client(url).transcribe(speech.pcm))
        began, sent = time.perf_counter(), 0
        while sent < FRAMES:
            most = min(A_CONNECTION, FRAMES - sent)
            chat.script.raw, chat.script.coding = odd.reply()
            if (kind := odd.chance.random()) < 0.1:
                sent += plain(port, most, odd.wyoming)
            elif kind < 0.15:
                sent += plain(calls, most, odd.call)
            elif kind < 0.2:
                sent += asyncio.run(called(odd, url, most, speech.pcm))
            else:
                sent += web(odd, running, url, most, codes, statuses)
        framed = time.perf_counter() - began
        for _ in range(FORMS):
            if odd.chance.random() < 0.05:
                path, body, kind = "/v1/realtime/calls", odd.offer(), "application/sdp"
            elif odd.chance.random() < 0.5:
                path, body, kind = odd.chance.choice(FORM_PATHS), odd.form(), odd.form_type()
            else:
                path, body, kind = odd.body()
            answer = HTTP.post(url + path, content=body, headers={"content-type": kind})
            statuses[answer.status_code] += 1
            if answer.status_code == 202:
                odd.jobs.append(answer.json()["id"])
            method, page = odd.page()
            statuses[HTTP.request(method, url + page).status_code] += 1
            assert answer.status_code < 500 or answer.status_code in ANSWERED, (path, body, answer.text)
        formed = time.perf_counter() - began - framed
        print(
            f"\n{sent} frames in {framed:.0f} s, closed with {dict(codes)}; "
            f"{FORMS} forms and bodies in {formed:.0f} s, answered with {dict(statuses)}"
        )
        assert running.process.poll() is None
        assert not [status for status in statuses if status >= 500 and status not in ANSWERED]
        assert eventually(lambda: finals(Client(url).transcribe(speech.pcm)) == expected)
        running.process.terminate()
        assert running.wait() == 0
    log = [line for line in running.lines if not line.startswith("hearsay ")]
    assert "Traceback" not in "\n".join(log), log
    assert len(log) < 40, log
