"""What an unfriendly Wyoming client can do, and what becomes of everybody at a drain."""

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.event import Event
from wyoming.info import Describe
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop

from daemon.config import ConfigError, Settings
from daemon.hub import Hub
from daemon.serve import Background, serve
from daemon.wyoming import connection, wire
from daemon.wyoming.synthesis import Synthesis, SynthesizeRequest
from daemon.wyoming.transcription import AudioFormat, TranscribeRequest, Transcription
from tests.daemon.support import LONG, LONGEST, RATE, Client, Speech, eventually, finals, free_port
from tests.daemon.wyoming.conftest import connected, settled

pytestmark = pytest.mark.anyio

Door = Callable[..., AbstractContextManager[Background]]


def _everything(raw: socket.socket) -> bytes:
    said = bytearray()
    while chunk := raw.recv(65_536):
        said += chunk
    return bytes(said)


async def answered(background: Background, data: bytes) -> list[Event]:
    """What raw bytes are answered, until the daemon ends the connection."""
    async with connected(background) as client:
        writer: asyncio.StreamWriter = client._writer  # type: ignore[assignment]
        writer.write(data)
        return await client.rest()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "the line: JSON is malformed"),
        (b"{}\n", "the line: Object missing required field `type`"),
        (b'{"type": 5}\n', "type"),
        (b'{"type": "ping", "data": [1]}\n', "data"),
        (b'{"type": "ping", "data_length": -1}\n', "data_length"),
        (b'{"type": "ping", "data_length": 1e3}\n', "data_length"),
        (b'{"type": "ping", "data_length": 9999999999999}\n', "data_length: 9999999999999 bytes, the limit is 1048576"),
        (b'{"type": "audio-chunk", "payload_length": 1048577}\n', "payload_length: 1048577 bytes, the limit is"),
        (b'{"type": "ping", "data_length": 4}\nnull', "data: Expected `object`"),
        (b'{"type": "ping", "data_length": 3}\n\xff\xfe\xfd', "data: "),
        (b'{"type": "\xff"}\n', "the line: "),
        (b"[" * 60_000 + b"\n", "the line: "),
        (b"x" * 70_000, "a line of more than 65536 bytes"),
        (b'{"type": "audio-start", "data": {"rate": "a", "width": 2, "channels": 1}}\n', "audio-start: Expected `int`"),
        (b'{"type": "audio-start", "data": {"rate": 16000}}\n', "audio-start: Object missing required field"),
        (b'{"type": "transcribe", "data": {"transcript_terms": "x"}}\n', "transcribe: Expected `array`"),
        (b'{"type": "synthesize", "data": {"text": 1}}\n', "synthesize: Expected `str`"),
        (b'{"type": "synthesize", "data": {"text": "x", "voice": "y"}}\n', "synthesize: Expected `object`"),
    ],
)  # fmt: skip
async def test_what_is_no_event_is_told_and_ends(wyoming: Background, data: bytes, text: str) -> None:
    (error,) = await answered(wyoming, data)
    assert (error.type, error.data["code"]) == ("error", "malformed")
    assert text in error.data["text"]


async def test_events_nobody_knows_are_ignored(connect: Callable[[], Any]) -> None:
    """As the protocol wants it; so are stops of what never began."""
    async with connect() as client:
        for kind in ("detect", "run-satellite", "x", "audio-stop", "synthesize-stop", "synthesize-chunk"):
            await client.write_event(Event(kind, {"text": "x", "deep": [[[]]]}, b"payload"))
        await client.say(Describe())
        assert (await client.read_event()).type == "info"


async def test_who_brings_nothing_is_idle(door: Door) -> None:
    """Between events and within one; and a slot that is held is given back."""
    begun = wire.encoded(AudioStart(RATE, 2, 1).event())
    with door(idle_seconds=4.0) as background:  # more than a machine stands still
        told = await asyncio.gather(*(answered(background, data) for data in (b"", b'{"type": "ping"', begun)))
        assert (
            background.hub.metrics.registry.get_sample_value(
                "hearsay_sessions_opened_total", {"path": "wyoming/transcribe"}
            )
            == 1
        )
        idle = {"text": "nothing came for 4 s (idle_seconds)", "code": "idle"}
        assert [[event.data for event in events] for events in told] == 3 * [[idle]]
        await settled(background)


async def test_audio_has_an_end(door: Door) -> None:
    with door(max_session_seconds=1.0) as background:
        async with connected(background) as client:
            await client.say(*[AudioChunk(RATE, 2, 1, bytes(RATE)) for _ in range(5)])
            errors = [event.data for event in await client.rest() if event.type == "error"]
            assert [error["code"] for error in errors] == ["session_length"]


async def test_connections_are_counted(door: Door) -> None:
    """One too many is told so; when another ends, there is room again."""
    with door(sessions=1) as background:
        most = background.hub.settings.beside_connections
        streams = [
            await asyncio.open_connection("127.0.0.1", background.hub.settings.wyoming_port) for _ in range(most)
        ]
        for reader, writer in streams:
            writer.write(b'{"type": "ping"}\n')
            assert b"pong" in await reader.readline()
        async with connected(background) as client:
            assert [event.data["code"] for event in await client.rest()] == ["connections"]
        for _, writer in streams:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(30):
            while True:
                # Who comes before the daemon knows that one has gone finds it closed, perhaps while writing.
                with suppress(ConnectionError):
                    async with connected(background) as client:
                        await client.say(Describe())
                        if [event.type for event in await client.until("info")] == ["info"]:
                            return


async def test_who_does_not_read_costs_nobody_else(door: Door, speech: Speech) -> None:
    """The speaker is held back, then the connection is ended; others are heard meanwhile."""
    with door(send_timeout_seconds=1.0) as background:
        alone = finals(Client(background.url).transcribe(speech.pcm))
        async with connected(background) as client:
            await client.say(SynthesizeStart(), *[SynthesizeChunk(LONGEST) for _ in range(20)])
            heard = await asyncio.to_thread(Client(background.url).transcribe, speech.pcm)
            assert finals(heard) == alone
            await settled(background)  # although it never read and never left


async def test_who_asks_without_reading_is_let_go(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the answers that nobody reads keep the connection from closing."""
    monkeypatch.setattr(connection, "_CLOSE_SECONDS", 0.2)
    asked = b'{"type": "describe"}\n' * 1000
    with door(send_timeout_seconds=600.0) as background:
        with socket.create_connection(("127.0.0.1", background.hub.settings.wyoming_port)) as one:
            one.setblocking(False)

            def reset() -> bool:
                try:
                    one.send(asked)
                except BlockingIOError:
                    return False
                except ConnectionError:
                    return True
                return False

            assert await asyncio.to_thread(eventually, reset)


@pytest.mark.parametrize("reset", [False, True])
async def test_who_vanishes_leaves_nothing(
    wyoming: Background, speech: Speech, count: Callable[[Background], Any], reset: bool
) -> None:
    """In the middle of an event, of audio, of speech; politely or not."""
    await settled(wyoming)
    before = count(wyoming)
    chunk = wire.encoded(AudioChunk(RATE, 2, 1, speech.pcm).event())
    for data in (
        b"",
        b'{"type": "au',
        chunk[: len(chunk) // 2],
        chunk,
        chunk + wire.encoded(AudioStop().event()),
        wire.encoded(Synthesize(LONGEST[:4000]).event()),
    ):
        _, writer = await asyncio.open_connection("127.0.0.1", wyoming.hub.settings.wyoming_port)
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)
        if reset:
            sock: Any = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.close()
    await settled(wyoming)
    await asyncio.sleep(0.1)
    assert eventually(lambda: count(wyoming) <= before)  # not in a thread, which would count


# ----------------------------------------------------------------------------------------------------------- fuzz

_kinds = st.sampled_from([
    "describe", "ping", "transcribe", "audio-start", "audio-chunk", "audio-stop", "synthesize", "synthesize-start",
    "synthesize-chunk", "synthesize-stop", "select-program", "transcript", "x",
])  # fmt: skip
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50_000) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(["rate", "width", "channels", "text", "voice", "name", "language", "transcript_terms", "x"])
_formats = st.fixed_dictionaries({"rate": st.sampled_from([8000, 16000, 48000]), "width": st.integers(0, 5),
                                  "channels": st.integers(0, 3)})  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One event: right, or wrong in one way or another."""
    data = draw(_formats | st.dictionaries(_names, _values, max_size=4) | st.just({"text": "The tide."}))
    payload = draw(st.binary(max_size=400))
    body = json.dumps(data).encode()
    line: dict[str, Any] = {"type": draw(_kinds), "data_length": len(body), "payload_length": len(payload)}
    if draw(st.integers(0, 9)) == 0:
        line |= draw(st.dictionaries(st.sampled_from(["type", "data_length", "payload_length", "data"]), _values))
    return json.dumps(line).encode() + b"\n" + body + payload


_GOOD: Final = [
    wire.encoded(event.event())
    for event in (
        Transcribe(language="en"), AudioStart(RATE, 2, 1), AudioChunk(RATE, 2, 1, bytes(320)), AudioStop(), Describe(),
        SynthesizeStart(), SynthesizeChunk("Yes. "), SynthesizeStop(), Synthesize("Yes."),
    )
]  # fmt: skip
"""What a client in good order sends; in any order it is half right."""


_PINGS: Final = b'\n{"type": "ping"}\n' * 6500
"""More than any event above announces, so that one of them is answered, or is an error."""


@settings(max_examples=120)
@given(
    frames=st.lists(st.sampled_from(_GOOD) | frames(), max_size=8),
    junk=st.binary(max_size=60),
    cut=st.integers(0, 4000),
)
def test_fuzz(wyoming: Background, frames: list[bytes], junk: bytes, cut: int) -> None:
    """Whatever comes: answers are events, the daemon lives, nothing stays open, no fault is logged."""
    data = (b"".join(frames) + junk)[: cut + 1]

    async def attack() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", wyoming.hub.settings.wyoming_port)
        writer.write(data + _PINGS)
        async with asyncio.timeout(60):
            while (event := await wire.read(reader, 1 << 20)) is not None:
                assert event.data.get("code") != "fault", event.data
                if event.type in ("pong", "error"):
                    break
        writer.close()

    asyncio.run(attack())


@given(data=st.lists(frames() | st.binary(max_size=40), max_size=6).map(b"".join), cuts=st.lists(st.integers(1, 90)))
async def test_frames_do_not_depend_on_where_they_are_cut(data: bytes, cuts: list[int]) -> None:
    """The same events, then the same end."""

    async def read(pieces: list[bytes]) -> list[Event | str]:
        reader = asyncio.StreamReader(limit=wire.LINE_BYTES)
        found: list[Event | str] = []

        async def take() -> None:
            try:
                while (event := await wire.read(reader, 1 << 20)) is not None:
                    found.append(event)
            except wire.Malformed as error:
                found.append(str(error))

        taking = asyncio.create_task(take())
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()
        await taking
        return found

    pieces, rest = [], data
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert await read([*pieces, rest]) == await read([data])


async def test_after_all_that_everyone_is_served(
    wyoming: Background, speech: Speech, connect: Callable[[], Any]
) -> None:
    await settled(wyoming)
    async with connect() as client:
        await client.say(Transcribe(), AudioChunk(RATE, 2, 1, speech.pcm), AudioStop())
        text = (await client.until("transcript-stop"))[-2].data["text"]
    assert text == finals(Client(wyoming.url).transcribe(speech.pcm))


@pytest.mark.parametrize("kind", [Transcription, Synthesis])
async def test_a_session_that_closes_can_be_cancelled(talker: Background, kind: type[Any]) -> None:
    """It gives back what it took all the same."""
    loaded = talker.hub.loaded()
    hub = Hub(Settings(), lambda _: loaded, owns_models=False)
    await hub.start()
    assert await hub.ready()
    if kind is Transcription:
        session = Transcription(hub, TranscribeRequest(), lambda event: None)
        await session.open(AudioFormat(RATE, 2, 1))
    else:
        session = Synthesis(hub, lambda event: None, lambda event: asyncio.sleep(0))
        await session.open(SynthesizeRequest())
    closing = asyncio.create_task(session.close())
    await asyncio.sleep(0)  # it waits for the work to end
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert hub.taken == 0
    await hub.stop()


# ---------------------------------------------------------------------------------------------------------- drain


async def test_a_drain_hears_what_arrived(door: Door, speech: Speech) -> None:
    """New work is refused, the open utterance goes on; at the deadline its transcript comes, then the end."""
    with door(drain_seconds=1.0) as background:
        alone = finals(Client(background.url).transcribe(speech.pcm))
        async with connected(background) as client, connected(background) as late:
            await client.say(AudioChunk(RATE, 2, 1, speech.pcm), Describe())
            await client.until("info")
            background.drain(1.0)
            await late.say(AudioStart(RATE, 2, 1))
            assert [event.data["code"] for event in await late.rest()] == ["draining"]
            events = await client.rest()
            assert [event.type for event in events[-3:]] == ["transcript", "transcript-stop", "error"]
            assert events[-3].data["text"] == alone
            assert events[-1].data["code"] == "draining"


async def test_a_drain_hears_and_speaks_what_it_had_begun(door: Door, speech: Speech) -> None:
    """Also of a client that has said all, and waits."""
    with door() as background:
        alone = finals(Client(background.url).transcribe(10 * speech.pcm))
        async with connected(background) as one, connected(background) as other:
            await other.say(Synthesize(LONG))
            await one.say(AudioStart(RATE, 2, 1))
            for at in range(0, 10 * len(speech.pcm), 32_000):
                await one.say(AudioChunk(RATE, 2, 1, (10 * speech.pcm)[at : at + 32_000]))
            await one.say(AudioStop())
            await one.until("transcript-chunk")
            await other.until("audio-chunk")
            background.drain(0)
            heard, spoken = await asyncio.gather(one.rest(), other.rest())
    assert [event.data["text"] for event in heard if event.type == "transcript"] == [alone]
    assert [event.type for event in spoken[-2:]] == ["audio-stop", "error"]


async def test_a_drain_lets_clients_read_to_the_end(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is spoken before anybody reads it."""
    monkeypatch.setattr("daemon.duplex._BACKLOG_BYTES", 1 << 30)
    with door(max_outbound_bytes=1 << 26) as background:
        spoken = partial(
            background.hub.metrics.registry.get_sample_value,
            "hearsay_spoken_seconds_total",
            {"path": "wyoming/synthesize"},
        )
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.settimeout(60)
            raw.connect(("127.0.0.1", background.hub.settings.wyoming_port))
            raw.sendall(wire.encoded(Synthesize(LONG).event()))
            before, now = -1.0, 0.0
            while before < now or not now:
                await asyncio.sleep(0.5)
                before, now = now, spoken() or 0.0
            background.drain(60)
            await asyncio.sleep(0.3)  # three looks at whether anybody is left
            said = await asyncio.to_thread(_everything, raw)
    assert b'"audio-stop"' in said[-200:]


async def test_a_drain_waits_for_nobody_who_does_nothing(door: Door) -> None:
    with door() as background:
        async with connected(background) as client:
            await client.say(Describe())
            await client.read_event()
            background.drain(60)
            assert await client.rest() == []


def test_beyond_loopback_it_must_be_wanted() -> None:
    """The protocol knows no key, so a key does not open it."""
    with pytest.raises(ConfigError, match="wyoming_port: 0.0.0.0 is reachable"):
        Settings(host="0.0.0.0", wyoming_port=10300, api_key=("a-good-key",))
    with pytest.raises(ConfigError, match="wyoming_port: 8750 is the port"):
        Settings(wyoming_port=8750)
    Settings(host="0.0.0.0", wyoming_port=10300, api_key=("a-good-key",), insecure=True)


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve(Settings(port=free_port(), wyoming_port=port)) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
