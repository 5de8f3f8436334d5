"""Live audio over connections that break: a daemon that restarts, and one that misbehaves on purpose."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from websockets.asyncio.server import ServerConnection, serve

from clients import resume
from clients.events import Event, Results
from clients.handshake import Lost, Refused
from clients.options import StreamOptions
from clients.resume import Backoff, Disconnected, Reconnected
from clients.stream import AsyncStream, Stream, listen
from daemon.config import Settings
from daemon.loading import Loaded, Models
from daemon.serve import Background
from streaming.model import AsrModel
from tests.clients.conftest import Daemon
from tests.daemon.support import eventually, free_port

pytestmark = pytest.mark.anyio

RATE = 1000
"""Bytes a second in the tests with the misbehaving daemon: mulaw at 1 kHz is no daemon's, but counts well."""
OPTIONS = StreamOptions(encoding="mulaw", sample_rate=RATE)


async def paced(audio: bytes, size: int, pause: float, spent: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    """Pieces of ``size`` bytes, one every ``pause`` seconds; ``spent`` is set when the last has been taken."""
    for offset in range(0, len(audio), size):
        yield audio[offset : offset + size]
        await asyncio.sleep(pause)
    if spent is not None:
        spent.set()


def final(start: float, duration: float) -> str:
    """A final of the wire's shape."""
    alternative = {"transcript": f"{start:g}", "confidence": 1.0, "words": []}
    return json.dumps({
        "type": "Results", "start": start, "duration": duration, "is_final": True, "speech_final": True,
        "channel": {"alternatives": [alternative]},
    })  # fmt: skip


def grid(position: int) -> int:
    """Where a new session begins after a final that ends there."""
    return position // 32 * 32


class Crooked:
    """Drops connections: the n-th after ``drops[n]`` bytes, having made the first half of them final."""

    def __init__(self, drops: list[int]) -> None:
        self.drops = drops
        self.heard: list[bytes] = []
        self.finals = True
        """Whether any are made."""
        self.finalized: list[int] = []
        """Bytes before each Finalize."""

    async def __call__(self, connection: ServerConnection) -> None:
        """Serve one connection."""
        number = len(self.heard)
        self.heard.append(b"")
        async for message in connection:
            if isinstance(message, str):
                if json.loads(message) == {"type": "Finalize"}:
                    self.finalized.append(len(self.heard[number]))
                    continue
                assert json.loads(message) == {"type": "CloseStream"}
                await connection.send(final(0, len(self.heard[number]) / RATE))
                return
            self.heard[number] += message
            if number < len(self.drops) and len(self.heard[number]) >= self.drops[number]:
                if self.finals:
                    await connection.send(final(0, len(self.heard[number]) // 2 / RATE))
                await asyncio.sleep(0.05)
                connection.transport.abort()
                return


async def collect(url: str, audio: AsyncIterator[bytes], **options: int) -> list[Event | Disconnected | Reconnected]:
    """Everything that ``listen`` yields."""
    async with aclosing(listen(url, audio, OPTIONS, **options)) as events:
        return [event async for event in events]


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch):
    """Short waits between attempts."""
    monkeypatch.setattr(resume, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(resume, "LONGEST_WAIT", 0.1)


async def test_what_was_not_final_is_sent_again():
    """After a loss the next session gets the audio from the last final on, whole and once; the clock goes on."""
    audio = bytes(i % 251 for i in range(3000))
    crooked = Crooked([1000, 600])
    async with serve(crooked, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        events = await collect(f"http://127.0.0.1:{port}", paced(audio, 50, 0.005))
    first, second, third = crooked.heard
    assert audio.startswith(first) and len(first) >= 1000
    assert audio[grid(len(first) // 2) :].startswith(second)
    assert third == audio[grid(grid(len(first) // 2) + len(second) // 2) :]
    kinds = [type(event) for event in events if not isinstance(event, Results)]
    assert kinds == [Disconnected, Reconnected, Disconnected, Reconnected]
    finals = [event for event in events if isinstance(event, Results)]
    assert finals[1].start == grid(len(first) // 2) / RATE
    assert finals[-1].start + finals[-1].duration == 3.0


async def test_the_first_connection_must_succeed():
    """A wrong address is an error at once, not a minute of attempts."""
    with pytest.raises(Refused, match="no daemon answers"):
        await collect("http://127.0.0.1:9", paced(bytes(100), 50, 0))


async def test_attempts_end():
    """A daemon that stays away: the error of the last attempt, after as many as were allowed."""
    crooked = Crooked([100])
    events: list[object] = []
    async with serve(crooked, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Refused, match="no daemon answers"):
            async with aclosing(
                listen(f"http://127.0.0.1:{port}", paced(bytes(10**6), 50, 0.01), OPTIONS, attempts=3)
            ) as it:
                async for event in it:
                    events.append(event)
                    if isinstance(event, Disconnected):
                        server.close(close_connections=False)
    assert [event.attempt for event in events if isinstance(event, Disconnected)] == [1, 2, 3]


async def test_the_sources_error_is_raised():
    """A microphone that fails ends the captions with its own words, after what was heard is final."""

    async def failing() -> AsyncIterator[bytes]:
        yield bytes(500)
        await asyncio.sleep(0.05)
        raise OSError("the cable is out")

    events: list[object] = []
    async with serve(Crooked([]), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OSError, match="the cable is out"):
            async with aclosing(listen(f"http://127.0.0.1:{port}", failing(), OPTIONS)) as it:
                async for event in it:
                    events.append(event)
    assert [event.duration for event in events if isinstance(event, Results)] == [0.5]


async def test_while_nobody_answers_the_sender_waits(monkeypatch: pytest.MonkeyPatch):
    """No more than is kept is taken from it, and nothing of it is lost, however long that lasts."""
    monkeypatch.setattr(resume, "FIRST_WAIT", 0.8)
    monkeypatch.setattr(resume, "LONGEST_WAIT", 0.8)
    audio = bytes(i % 251 for i in range(5000))
    crooked = Crooked([200])
    async with serve(crooked, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncStream(url, OPTIONS, keep_seconds=1.0) as stream:

            async def send() -> None:
                async for piece in paced(audio, 50, 0.004):
                    await stream.send(piece)
                await stream.close_stream()

            sending = asyncio.create_task(send())
            resumed = [event async for event in stream if isinstance(event, Reconnected)]
            await sending
    assert [one.missed for one in resumed] == [0.0]
    assert resumed[0].resent <= 1.05
    assert crooked.heard[1] == audio[grid(len(crooked.heard[0]) // 2) :]


async def test_what_is_sent_too_fast_to_be_kept_is_told():
    """Far ahead of what a daemon tells to have heard: what was forgotten of it is counted when the session is lost."""
    crooked = Crooked([3000])
    crooked.finals = False
    async with serve(crooked, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncStream(url, OPTIONS, keep_seconds=1.0) as stream:
            for _ in range(300):
                await stream.send(bytes(10))
                await asyncio.sleep(0)
            missed = await anext(event.missed async for event in stream if isinstance(event, Reconnected))
    assert 0.5 < missed <= 1.5


async def test_a_finalize_without_an_answer_is_asked_again():
    """At its place in the audio."""
    crooked = Crooked([150])
    crooked.finals = False
    async with serve(crooked, "127.0.0.1", 0) as server:
        async with AsyncStream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", OPTIONS) as stream:
            await stream.send(bytes(100))
            await stream.finalize()
            await stream.send(bytes(100))
            await anext(event async for event in stream if isinstance(event, Reconnected))
            await stream.close_stream()
            async for _ in stream:
                pass
    assert crooked.finalized == [100, 100]


async def test_a_daemon_that_takes_long_to_load_is_found_as_soon_as_it_is_ready(
    asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch
):
    """Killed; nobody answers for a while, then it says that it is loading: it is looked for all the time, whatever it
    asks for, and the session's user is not told of every attempt."""
    monkeypatch.setattr(resume, "FIRST_WAIT", 0.1)
    monkeypatch.setattr(resume, "LOOK_SECONDS", 0.06)
    monkeypatch.setattr(resume, "LONGEST_WAIT", 60.0)
    models = Models(Loaded.of(asr_model))
    port = free_port()
    waits, wait = list[float](), resume.Backoff.wait

    def noted(self: Backoff, error: Lost | Refused) -> float:
        waits.append(wait(self, error))
        return waits[-1]

    monkeypatch.setattr(Backoff, "wait", noted)

    def slowly(settings: Settings) -> Models:
        del settings
        assert eventually(lambda: len(waits) >= 24)  # however long an attempt takes
        return models

    chosen = Settings(port=port, sessions=4)
    first, second = (Background(chosen, load, owns_models=False) for load in (lambda _: models, slowly))
    await asyncio.to_thread(first.__enter__)
    try:
        async with AsyncStream(first.url, StreamOptions(sample_rate=16_000)) as stream:
            await stream.send(bytes(32_000))
            await asyncio.to_thread(first.__exit__, None, None, None)
            assert await asyncio.to_thread(eventually, lambda: len(waits) >= 8)
            starting = asyncio.create_task(asyncio.to_thread(second.__enter__))
            told = 0
            async for event in stream:
                told += isinstance(event, Disconnected)
                if isinstance(event, Reconnected):
                    break
            assert max(waits) <= resume.FIRST_WAIT, "as soon as it is ready"
            assert told < 12 < len(waits)
            await starting
    finally:
        await asyncio.to_thread(second.__exit__, None, None, None)


def test_retry_after_is_waited():
    """And a little longer, so that not all come back at once; no number is no wish, and none is too long."""
    for asked, least in ((5.0, 5.01), (None, 0.01), (3600.0, resume.LONGEST_RETRY_AFTER)):
        waits = {Backoff(3).wait(Refused("busy", 429, asked)) for _ in range(20)}
        assert len(waits) > 1 and least <= min(waits) <= max(waits) <= least + 0.02


async def test_a_refusal_says_when_to_come_back(daemon: Daemon):
    """The header of a daemon that is full."""
    with daemon(sessions=1) as background:
        async with AsyncStream(background.url):
            with pytest.raises(Refused) as refused:
                await AsyncStream(background.url).connect()
    assert (refused.value.status, refused.value.retry_after) == (429, 5.0)


async def test_the_blocking_client_goes_on_too():
    """The same from a thread."""
    crooked = Crooked([100])
    async with serve(crooked, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]

        def run() -> list[object]:
            with Stream(f"http://127.0.0.1:{port}", OPTIONS) as stream:
                stream.send(bytes(400))
                stream.close_stream()
                return list(stream)

        events = await asyncio.to_thread(run)
    assert [type(event) for event in events if not isinstance(event, Results)] == [Disconnected, Reconnected]
    last = events[-1]
    assert isinstance(last, Results) and last.start + last.duration == pytest.approx(0.4)


async def test_a_daemon_that_restarts_loses_nothing(daemon: Daemon, speech: bytes, offline: list[str]):
    """In the middle of the second utterance the daemon ends and another takes its place: its words still come."""
    pause = bytes(48_000)
    middle = (speech.index(pause) + 1) // 2 * 2 + len(pause) + 32_000  # the pause may be found a byte early
    gone = asyncio.Event()

    async def spoken() -> AsyncIterator[bytes]:
        """However slow the machine is: the first daemon hears a second of the second utterance, no daemon the next."""
        async for piece in paced(speech[:middle], 3200, 0.02):
            yield piece
        await asyncio.wait_for(gone.wait(), 60)
        async for piece in paced(speech[middle:], 3200, 0.02):
            yield piece

    events: list[object] = []
    port = free_port()
    first = daemon(port=port)
    first.__enter__()
    second = None
    try:
        async with aclosing(listen(first.url, spoken(), StreamOptions(), attempts=10_000)) as it:
            async for event in it:
                events.append(event)
                if isinstance(event, Results) and event.is_final and second is None:
                    await asyncio.to_thread(first.__exit__, None, None, None)
                    gone.set()
                    second = daemon(port=port)
                    await asyncio.to_thread(second.__enter__)
    finally:
        if second is not None:
            await asyncio.to_thread(second.__exit__, None, None, None)
    assert [type(event) for event in events if isinstance(event, Disconnected | Reconnected)][-1] is Reconnected
    finals = [event for event in events if isinstance(event, Results) and event.is_final and event.text]
    assert finals[0].text == offline[0]
    ends = [event.start + event.duration for event in finals]
    assert all(a.start + a.duration <= b.start + 0.3 for a, b in zip(finals, finals[1:], strict=False))
    assert ends[-1] == pytest.approx(len(speech) / 32000, abs=1.5)


async def test_a_session_that_broke_a_rule_is_not_tried_again(daemon: Daemon, speech: bytes):
    """Close code 1008: the same would happen again."""
    with daemon(max_unheard_seconds=1.0) as background:
        with pytest.raises(Lost, match="max_unheard_seconds"):
            async with aclosing(listen(background.url, paced(speech, len(speech), 0), StreamOptions())) as it:
                async for _ in it:
                    pass
