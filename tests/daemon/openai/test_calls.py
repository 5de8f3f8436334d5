"""Calls by WebRTC, with aiortc as the client."""

import asyncio
import json
import random
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import httpx
import numpy as np
import pytest
from aioice import Connection
from av import CodecContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.peer import Peer, Sounds, _Voice  # pyright: ignore[reportPrivateUsage]
from daemon.serve import Background
from tests.daemon.caller import Caller, calling, post
from tests.daemon.chat_server import ChatServer
from tests.daemon.realtime import LONG, alike, check_published
from tests.daemon.support import HTTP, Counts, Speech, eventually

pytestmark = pytest.mark.anyio
Start = Callable[..., AbstractContextManager[Background]]
COMPLETED = "conversation.item.input_audio_transcription.completed"
HEARD: dict[str, Any] = {"type": "realtime", "audio": {"input": {"transcription": {}}}}
URL = "/v1/realtime/calls"


async def soon(check: Callable[[], bool], seconds: float = 60.0) -> bool:
    """As ``eventually``, while the event loop turns."""
    deadline = time.monotonic() + seconds
    while True:
        if check() or time.monotonic() > deadline:
            return check()
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def offer() -> str:
    """An offer of aiortc's, of one who never comes."""

    async def offered() -> str:
        caller = Caller()
        text = await caller.offer()
        await caller.close()
        return text

    return asyncio.run(offered())


async def test_a_caller_is_heard_and_answered(
    partner: Background, chat: ChatServer, speech: Speech, alone: str
) -> None:
    """Its sound comes and goes in tracks, not in events; a mark says when it begins and when all of it was played."""
    async with calling(partner.url) as caller:
        await caller.until("session.created")
        caller.tell("session.update", session=HEARD)
        await caller.until("session.updated")
        caller.microphone.say(speech.pcm)
        assert alike((await caller.until(COMPLETED))["transcript"], alone)
        done = await caller.until("response.done")
        started, stopped = [await caller.until(f"output_audio_buffer.{kind}") for kind in ("started", "stopped")]
        assert {started["response_id"], stopped["response_id"]} == {done["response"]["id"]}
        assert await soon(lambda: len(caller.sounding()) > 20)
        for _, event in caller.events:
            event.pop("seen", None)
            check_published(event)
        assert not caller.at("response.output_audio.delta") and not caller.at("error")
    assert chat.seen.requests
    assert eventually(lambda: partner.hub.taken == 0)


async def test_who_speaks_over_an_answer_ends_it(partner: Background, chat: ChatServer, speech: Speech) -> None:
    """What waits to be played is taken back: soon nothing is heard any more."""
    chat.script.parts, chat.script.pause = LONG, 0.05
    async with calling(partner.url) as caller:
        caller.tell("session.update", session={"type": "realtime", "audio": {"input": {"transcription": None}}})
        caller.tell("response.create", response={"input": [], "instructions": "Tell a story."})
        await caller.until("output_audio_buffer.started")
        assert await soon(lambda: len(caller.sounding()) > 10)
        chat.script.parts = ()
        caller.microphone.say(speech.pcm)
        await caller.until("input_audio_buffer.speech_started")
        await caller.until("output_audio_buffer.cleared")
        assert (await caller.until("response.done"))["response"]["status"] == "cancelled"
        # Frames under way, and those that aiortc's own jitter buffer holds.
        cleared, late = caller.at("output_audio_buffer.cleared")[0], 0.6
        await asyncio.sleep(2 * late)
        assert not caller.sounding(cleared + late)
    assert chat.seen.broken_off == 1


async def test_a_buffer_that_is_cleared_is_silent(partner: Background, chat: ChatServer) -> None:
    chat.script.parts = LONG
    async with calling(partner.url) as caller:
        caller.tell("response.create", response={"input": []})
        await caller.until("output_audio_buffer.started")
        caller.tell("output_audio_buffer.clear")
        await caller.until("output_audio_buffer.cleared")
        assert (await caller.until("response.done"))["response"]["status"] == "cancelled"
        assert not caller.at("output_audio_buffer.stopped")


async def test_the_format_of_a_call_is_its_own(partner: Background, chat: ChatServer) -> None:
    """Whatever a session or a response asks for: sound in another format would be noise."""
    wanted = {"format": {"type": "audio/pcmu"}}
    async with calling(partner.url) as caller:
        caller.tell("session.update", session={"type": "realtime", "audio": {"input": wanted, "output": wanted}})
        audio = (await caller.until("session.updated"))["session"]["audio"]
        assert [audio[side]["format"]["rate"] for side in ("input", "output")] == [48_000, 24_000]
        caller.tell("response.create", response={"input": [], "audio": {"output": wanted}})
        done = await caller.until("response.done")
        assert done["response"]["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24_000}


async def test_a_caller_is_understood_over_a_bad_line(
    partner: Background, chat: ChatServer, speech: Speech, alone: str
) -> None:
    """5 % of the packets are lost, each is late by up to 60 ms."""
    chance, loop = random.Random(3), asyncio.get_running_loop()
    async with calling(partner.url) as caller:
        caller.tell("session.update", session=HEARD)
        await caller.until("session.updated")
        ice: Any = caller.connection.getTransceivers()[0].sender.transport.transport
        send = ice._send

        async def sent(data: bytes) -> None:
            with suppress(ConnectionError):  # The call is over.
                await send(data)

        async def lossy(data: bytes) -> None:
            if not 127 < data[0] < 192:  # What is not sound has repetition of its own.
                await send(data)
            elif chance.random() > 0.05:
                loop.call_later(chance.random() * 0.06, lambda: asyncio.ensure_future(sent(data)))

        ice._send = lossy
        caller.microphone.say(speech.pcm)
        heard = (await caller.until(COMPLETED))["transcript"]
        assert alike(heard, alone), heard


async def test_whoever_hangs_up_takes_nothing_along(
    partner: Background, chat: ChatServer, speech: Speech, count: Callable[[Background], Counts]
) -> None:
    """In the middle of an answer, and of speech."""
    chat.script.parts, chat.script.pause = LONG, 0.05

    async def once() -> None:
        async with calling(partner.url) as caller:
            caller.tell("response.create", response={"input": []})
            await caller.until("output_audio_buffer.started")
            caller.microphone.say(speech.pcm)

    await once()
    assert await soon(lambda: partner.hub.taken == 0)
    before = count(partner)
    await once()
    assert await soon(lambda: partner.hub.taken == 0 and count(partner) <= before), (before, count(partner))
    assert await soon(lambda: chat.seen.broken_off == 2)


async def test_a_call_ends_with_the_daemon(talk: Start) -> None:
    with talk() as background:
        async with calling(background.url) as caller:
            await caller.until("session.created")
            background.drain(0)
            async with asyncio.timeout(60):
                await caller.closed.wait()
    assert background.hub.lost == 0


async def test_a_call_that_nobody_comes_to_ends(talk: Start) -> None:
    with talk(send_timeout_seconds=0.2) as background:
        caller = Caller()
        assert (await post(background.url, await caller.offer())).status_code == 201
        assert background.hub.listeners.taken == 1
        assert await soon(lambda: background.hub.taken == 0, 10)
        await caller.close()


async def test_a_microphone_that_is_gone_ends_the_call(talk: Start) -> None:
    """After idle_seconds without sound and events."""
    with talk(idle_seconds=1) as background:
        async with calling(background.url) as caller:
            caller.connection.getSenders()[0].replaceTrack(None)
            assert (await caller.until("error"))["error"]["code"] == "idle"
            async with asyncio.timeout(60):
                await caller.closed.wait()


async def test_the_gate_is_before_calls_too(start: Start, offer: str) -> None:
    """Host, Origin, key, capacity; a client secret opens a call with its session."""
    key = {"authorization": "Bearer correct-horse"}
    with start(api_key=("correct-horse",), sessions=1) as locked:
        assert (await post(locked.url, offer)).status_code == 401
        foreign = {**key, "origin": "https://evil.example"}
        assert (await post(locked.url, offer, headers=foreign)).status_code == 403
        assert (await post(locked.url, offer, headers={**key, "host": "evil.example"})).status_code == 403
        body = {"session": {"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}}
        async with httpx.AsyncClient(trust_env=False) as client:
            secret = (await client.post(f"{locked.url}/v1/realtime/client_secrets", json=body, headers=key)).json()
        ours = {"authorization": f"Bearer {secret['value']}"}
        async with calling(locked.url, headers=ours) as caller:
            session = (await caller.until("session.created"))["session"]
            assert session["type"] == "transcription" and session["audio"]["input"]["transcription"]["language"] == "en"
            assert "output" not in session["audio"]
            full = await post(locked.url, offer, headers=key)
            assert full.status_code == 429 and full.headers["retry-after"]


async def test_a_form_brings_the_session(talker: Background) -> None:
    """As OpenAI's SDK for Python sends it, or with the offer in a ``Blob``."""
    for name in (None, "blob"):
        caller = Caller()
        session = json.dumps({"type": "realtime", "instructions": "Be brief."})
        parts = {"sdp": (name, await caller.offer(), "application/sdp"), "session": (None, session, "application/json")}
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(talker.url + URL, files=parts)
        assert answer.status_code == 201 and re.fullmatch(rf"{URL}/rtc_[\w-]+", answer.headers["location"])
        assert answer.headers["content-type"] == "application/sdp"
        await caller.answered(answer.text)
        assert (await caller.until("session.created"))["session"]["instructions"] == "Be brief."
        await caller.close()


def test_what_a_request_lacks_is_named(talker: Background, offer: str) -> None:
    form = {"sdp": (None, offer), "session": (None, '{"type": "video"}')}
    assert HTTP.get(talker.url + URL).status_code == 405
    for answer, named in (
        (HTTP.post(talker.url + URL, content=b"v=0"), "sdp"),
        (HTTP.post(talker.url + URL, content=offer.replace("a=fingerprint", "a=thumb")), "sdp"),
        (HTTP.post(talker.url + URL, content=offer.replace("opus", "speex")), "sdp"),
        (HTTP.post(talker.url + URL, content=offer + "m=video 9 UDP/TLS/RTP/SAVPF 97\r\n"), "sdp"),
        (HTTP.post(talker.url + URL, content=offer + "a=x\r\n" * 4000), "sdp"),
        (HTTP.post(talker.url + URL, files=form), "session.type"),
        (HTTP.post(talker.url + URL, files={**form, "session": (None, "[]")}), None),
    ):
        assert answer.status_code == 400 and answer.json()["error"]["param"] == named, answer.text
    assert talker.hub.taken == 0


def test_where_it_is_not_installed_the_answer_says_how(
    talker: Background, offer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "daemon.peer", None)
    answer = HTTP.post(talker.url + URL, content=offer)
    assert answer.status_code == 501 and "pip install 'hearsay[webrtc]'" in answer.json()["error"]["message"]


async def test_nothing_is_asked_of_others(talker: Background, offer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is asked where this machine is, and no address of the offer is tried."""
    asked, tried = list[object](), list[object]()
    begin = Connection.__init__

    def noted(self: Connection, *given: Any, **named: Any) -> None:
        asked.extend(value for name, value in named.items() if name in ("stun_server", "turn_server"))
        begin(self, *given, **named)

    async def added(self: Connection, candidate: object) -> None:
        tried.append(candidate)

    monkeypatch.setattr(Connection, "__init__", noted)
    monkeypatch.setattr(Connection, "add_remote_candidate", added)
    assert "a=candidate" in offer
    answer = (await post(talker.url, offer)).text
    assert set(re.findall(r"a=candidate:.* typ (\w+)", answer)) == {"host"}
    assert not asked and not tried


# ------------------------------------------------------------------------------------------------------------ nonsense


@pytest.fixture(scope="module")
def patient(talk: Start) -> Any:
    """A daemon whose calls end at once where nobody comes."""
    with talk(send_timeout_seconds=0.1, sessions=64) as background:
        yield background


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_offer_breaks_anything(
    patient: Background, offer: str, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """Lines that are lost, repeated or garbled."""
    lines = offer.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(lines) - 1))
        name, mark, value = lines[place].partition(data.draw(st.sampled_from(("=", ":", " ", "/"))))
        lines[place : place + 1] = data.draw(
            st.sampled_from(([], [lines[place]] * 2, [name], [name + mark], [f"{name}{mark}9{value}", value]))
            | st.builds(lambda odd: [f"{name}{mark}{odd}"], st.text(max_size=20) | st.integers().map(str))
        )
        lines = lines or ["v=0"]
    answer = HTTP.post(patient.url + URL, content="\r\n".join(lines).encode("utf-8", "replace"))
    assert answer.status_code in (201, 400, 429), answer.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_no_event_breaks_a_call(talker: Background, caplog: pytest.LogCaptureFixture) -> None:
    """Text that is no event, bytes, and events of odd fields get an error each, and the call goes on."""
    odd = ["", "{}", "[]", "\0", "null", '{"type": 5}', '{"type": "session.update"}', "[" * 50_000, "x" * 200_000]
    async with calling(talker.url) as caller:
        for message in (*odd, *(one.encode() for one in odd), b"\xff\xfe"):
            caller.channel.send(message)
        for patch in ("x", {"audio": 5}, {"audio": {"input": {"format": {"type": "audio/flac"}}}}, {"type": "video"}):
            caller.tell("session.update", session=patch)
        assert await soon(lambda: len(caller.at("error")) >= 2 * len(odd) + 3)
        caller.tell("session.update", session={"type": "realtime", "instructions": "Well."})
        assert await soon(lambda: any(e.get("session", {}).get("instructions") for _, e in caller.events))
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_event_that_is_too_large_for_a_client_is_told_of(talker: Background) -> None:
    caller = Caller()
    offered = (await caller.offer()).replace("max-message-size:262144", "max-message-size:300")
    await caller.answered((await post(talker.url, offered)).text)
    assert (await caller.until("error"))["error"]["code"] == "too_large"
    caller.tell("input_audio_buffer.clear")
    await caller.until("input_audio_buffer.cleared")
    await caller.close()


@pytest.mark.parametrize("what", ["a second channel", "too many bytes", "a message without end", "text that is none"])
async def test_who_breaks_a_rule_is_hung_up_on(talk: Start, what: str, caplog: pytest.LogCaptureFixture) -> None:
    with talk(max_frame_bytes=1 << 17) as background:
        async with calling(background.url) as caller:
            sctp: Any = caller.connection.sctp
            match what:
                case "a second channel":
                    caller.connection.createDataChannel("another")
                case "too many bytes":
                    caller.channel.send("x" * 200_000)
                case "a message without end":
                    sctp._remote_max_message_size = 0
                    asyncio.ensure_future(sctp._send(caller.channel.id, 51, b"x" * 3_000_000))
                case _:
                    await sctp._send(caller.channel.id, 51, b"\xff\xfe")
            assert await soon(lambda: background.hub.taken == 0)
    assert not [record for record in caplog.records if record.exc_info]


# -------------------------------------------------------------------------------------------------------------- sound


async def test_sound_goes_out_as_it_is_played() -> None:
    """However fast it is made; frames follow one another in time, and a pause shows in theirs."""
    drained: list[float] = []
    sounds = Sounds(1 << 20, lambda: None)
    voice = _Voice(sounds, lambda: drained.append(time.monotonic()))
    began, times = time.monotonic(), list[float]()
    sounds.put_sound(bytes(range(1, 241)) * 4 * 25)  # half a second
    packets = [await voice.recv() for _ in range(25)]
    times.append(time.monotonic() - began)
    assert 0.4 <= times[0]
    pts = [packet.pts for packet in packets]
    assert pts == list(range(pts[0] or 0, (pts[0] or 0) + 25 * 480, 480))
    assert not drained
    silence = [await voice.recv() for _ in range(6)]
    codec: Any = CodecContext.create("libopus", "r")
    levels = [np.abs(codec.decode(packet)[0].to_ndarray()).max() for packet in (*packets, *silence)]
    assert drained and min(levels[:25]) > 1000 and levels[-1] < 200
    await voice.recv()
    after = time.monotonic()
    sounds.put_sound(bytes(range(1, 241)) * 8)
    packet = await voice.recv()
    assert abs((packet.pts or 0) / 24_000 - (after - began)) < 0.2


async def test_what_is_taken_back_is_not_played() -> None:
    forgotten: list[int] = []
    sounds = Sounds(1 << 20, lambda: forgotten.append(1))
    sounds.put_sound(bytes(10_000))
    assert len(await sounds.frame(1)) == 960 and sounds.waiting
    sounds.forget_sound()
    assert not sounds.waiting and await sounds.frame(0.01) == b"" and forgotten


async def test_events_count_more_than_sound_that_is_not_read() -> None:
    """Sound is left out beyond half of what may wait."""
    peer = Peer(10_000, lambda: None, lambda: None)
    for _ in range(10):
        peer._sound_came(bytes(1920))  # pyright: ignore[reportPrivateUsage]
    await peer.close()
    messages = [await peer.receive() for _ in range(5)]
    assert [len(one.get("bytes", b"")) for one in messages] == [0, 1920, 1920, 1920, 0]
    assert messages[-1] == {"type": "websocket.disconnect", "code": 1000}


def test_a_page_can_see_whether_there_is_a_conversation(partner: Background, talker: Background) -> None:
    """Its button for one stands only where a chat endpoint answers."""
    assert HTTP.get(partner.url + "/readyz").json()["converses"] is True
    assert "converses" not in HTTP.get(talker.url + "/readyz").json()
