"""``/v1/speak`` over real sockets: text in, audio out, Deepgram's messages around them."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker
from codec.talker import TalkerStep
from daemon.encoder import RAW
from daemon.serve import Background
from engines.batching import Owner
from streaming.pcm import PcmDecoder
from tests.daemon.support import Voice, eventually, same, taken, tell, until

Start = Callable[..., AbstractContextManager[Background]]

SHORT = "The boats came home at nine."
LONG = " ".join([SHORT] * 30)


@pytest.fixture(scope="module")
def voice(talker: Background) -> Voice:
    return Voice(talker.url)


@pytest.fixture(scope="module")
def offline(tts_model: TtsModel) -> Callable[..., bytes]:
    """What the model says in this process, as linear16."""

    def speak(text: str, **options: Any) -> bytes:
        speaker = tts_model.speaker(SpeakOptions(**{"seed": 1, "sample_rate": 24_000, **options}))
        speaker.say(text)
        speaker.finish()
        samples = np.concatenate([e.samples for e in speaker.events() if hasattr(e, "samples")])
        speaker.close()
        return np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes()

    return speak


def test_a_text_is_spoken_as_the_model_speaks_it(voice: Voice, offline: Callable[..., bytes]) -> None:
    audio, messages = voice.speak(SHORT)
    assert same(audio, offline(SHORT))
    assert [m["type"] for m in messages] == ["Metadata"]


@given(st.lists(st.integers(1, len(SHORT) - 1), max_size=6))
@settings(max_examples=10, deadline=None)
def test_the_cuts_of_the_text_do_not_matter(voice: Voice, offline: Callable[..., bytes], cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SHORT)]
    texts = [SHORT[a:b] for a, b in zip(places, places[1:], strict=False)]
    audio, _ = voice.speak(*texts)
    assert same(audio, offline(SHORT))


def test_metadata_tells_what_was_asked_for(voice: Voice) -> None:
    with voice.open(tag="mine", mip_opt_out="true", seed=99, model="aura-2-thalia-en", voice="slt") as socket:
        metadata = json.loads(socket.recv())
        assert socket.response is not None
        assert socket.response.headers["dg-request-id"] == metadata.pop("request_id")
    assert len(metadata.pop("model_uuid")) == 36
    assert metadata == {
        "type": "Metadata", "model_name": "pocket-tts-en", "model_version": "1", "additional_model_uuids": [],
        "voice": "slt", "encoding": "linear16", "sample_rate": 24000, "seed": 99, "warnings": ["tag: not honoured"],
    }  # fmt: skip


def test_the_seed_that_was_drawn_says_it_again(voice: Voice) -> None:
    """Without a seed one is drawn, small enough for every JSON reader."""
    said: list[tuple[int, bytes]] = []
    for _ in range(2):
        with connect(voice.socket_url, proxy=None) as socket:
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Close")
            audio, messages = taken(socket)
            said.append((messages[0]["seed"], audio))
    (one, first), (other, second) = said
    assert one != other and first != second
    assert max(one, other) < 2**53
    assert same(voice.speak(SHORT, seed=one)[0], first)


@pytest.mark.parametrize("encoding", RAW)
def test_every_encoding_holds_the_same_sound(voice: Voice, offline: Callable[..., bytes], encoding: str) -> None:
    audio, messages = voice.speak(SHORT, encoding=encoding)
    rate = messages[0]["sample_rate"]
    assert rate == (8_000 if encoding.endswith("law") else 24_000)
    heard = PcmDecoder(encoding, rate, 1, rate).decode(audio)
    wanted = np.frombuffer(offline(SHORT, sample_rate=rate), "<i2") / 32768
    assert heard.size == wanted.size
    assert np.sqrt(np.mean((heard - wanted) ** 2)) < 0.03 * np.sqrt(np.mean(wanted**2))


@pytest.mark.parametrize("rate", [8_000, 16_000, 48_000])
def test_any_sample_rate(voice: Voice, offline: Callable[..., bytes], rate: int) -> None:
    audio, _ = voice.speak(SHORT, sample_rate=rate)
    assert len(audio) / rate == pytest.approx(len(offline(SHORT)) / 24_000, abs=0.01)


def test_speed_changes_the_length(voice: Voice, offline: Callable[..., bytes]) -> None:
    audio, _ = voice.speak(SHORT, speed="1.5")
    assert len(audio) == pytest.approx(len(offline(SHORT)) / 1.5, rel=0.05)


def test_every_flush_is_answered_after_its_audio(voice: Voice, offline: Callable[..., bytes]) -> None:
    with voice.open(marks="true") as socket:
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Flush")
        first, messages = until(socket, "Flushed")
        assert same(first, offline(SHORT))
        tell(socket, "Speak", text="And then they slept.")
        tell(socket, "Flush")
        tell(socket, "Flush")
        second, more = until(socket, "Flushed")
        assert len(second) > 3840
        assert [m["sequence_id"] for m in (messages[-1], more[-1], until(socket, "Flushed")[1][-1])] == [0, 1, 2]
        pieces = [m for m in messages + more if m["type"] == "Piece"]
        assert [piece["text"] for piece in pieces] == ["the boats came home at nine.", "and then they slept."]
        assert pieces[0]["start"] == 0
        assert pieces[0]["end"] == pieces[1]["start"] == pytest.approx(len(first) / 48_000)
        assert (pieces[0]["start_char"], pieces[0]["end_char"]) == (0, len(SHORT))


def test_audio_begins_before_the_last_word_is_there(voice: Voice) -> None:
    """Words that come one at a time: the first audio follows the first words."""
    with voice.open() as socket:
        socket.recv()
        for word in "The quick brown fox".split():
            tell(socket, "Speak", text=word + " ")
        assert isinstance(socket.recv(120), bytes)
        tell(socket, "Speak", text="jumps over the lazy dog.")
        tell(socket, "Close")
        audio, messages = taken(socket)
        assert audio and messages == []
        assert socket.close_code == 1000


def test_the_first_message_is_one_frame(voice: Voice) -> None:
    """So that sound starts; then groups grow with what the client has to play."""
    with voice.open() as socket:
        socket.recv()
        tell(socket, "Speak", text=LONG)
        sizes = [len(socket.recv(120)) for _ in range(12)]
        tell(socket, "Clear")
    assert sizes[0] == 3840
    assert max(sizes) >= 4 * 3840
    assert all(size % 2 == 0 for size in sizes)


# ------------------------------------------------------------------------------------------------------- barge-in


def test_after_cleared_no_old_audio_comes(voice: Voice, offline: Callable[..., bytes]) -> None:
    """What comes after ``Cleared`` is the new text alone, as it sounds in a new session; at random moments."""
    wanted = offline(SHORT)
    with voice.open() as socket:
        socket.recv()
        for i in range(8):
            tell(socket, "Speak", text=LONG)
            for _ in range(i):
                socket.recv(120)
            tell(socket, "Clear")
            _, messages = until(socket, "Cleared")
            assert messages[-1]["sequence_id"] == i
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Flush")
            audio, _ = until(socket, "Flushed")
            assert same(audio, wanted)


def test_clear_takes_waiting_flushes_with_it(voice: Voice) -> None:
    with voice.open() as socket:
        tell(socket, "Speak", text=LONG)
        tell(socket, "Flush")
        tell(socket, "Clear")
        tell(socket, "Clear")
        tell(socket, "Close")
        _, messages = taken(socket)
        assert [m["type"] for m in messages] == ["Metadata", "Cleared", "Cleared"]
        assert socket.close_code == 1000


def test_clear_ends_what_close_would_speak(voice: Voice) -> None:
    with voice.open() as socket:
        tell(socket, "Speak", text=LONG)
        tell(socket, "Close")
        tell(socket, "Clear")
        tell(socket, "Speak", text=SHORT)  # too late
        tell(socket, "Flush")
        audio, messages = taken(socket)
        assert [m["type"] for m in messages] == ["Metadata", "Cleared"]
        assert len(audio) < 48_000 * 10
        assert socket.close_code == 1000


def test_flushes_that_wait_are_bounded(voice: Voice) -> None:
    with voice.open() as socket:
        tell(socket, "Speak", text=LONG)
        for _ in range(1001):
            tell(socket, "Flush")
        _, messages = until(socket, "Warning")
        assert messages[-1]["code"] == "FLUSH_LIMIT"
        tell(socket, "Clear")
        until(socket, "Cleared")
        tell(socket, "Flush")
        assert until(socket, "Flushed")[1][-1]["sequence_id"] == 1000


def test_clear_frees_the_engine(voice: Voice, tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """From ``Clear`` to ``Cleared`` in the middle of a long text: a frame's work, not the group's or the text's."""
    begun, at_clear = 0, list[int]()
    frame, clear = tts_model.engine.frame, Speaker.clear

    def counted(step: TalkerStep, owner: Owner) -> list[int] | None:
        nonlocal begun
        begun += 1
        return frame(step, owner)

    def noted(speaker: Speaker) -> int:
        number = clear(speaker)
        at_clear.append(begun)
        return number

    monkeypatch.setattr(tts_model.engine, "frame", counted)
    monkeypatch.setattr(Speaker, "clear", noted)
    with voice.open() as socket:
        for _ in range(20):
            tell(socket, "Speak", text=LONG)
            while not isinstance(socket.recv(120), bytes):
                pass
            tell(socket, "Clear")
            until(socket, "Cleared")
            assert begun - at_clear[-1] <= 1
    assert len(at_clear) == 20


# ------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"colour": "blue"}, "colour: no such parameter"),
        ({"encoding": "mp3"}, "encoding: 'mp3' is none of linear16, float32, mulaw, alaw"),
        ({"container": "wav"}, "container: a stream is raw audio"),
        ({"sample_rate": "4000"}, "sample_rate: 4000 Hz lies outside 8000…48000 Hz"),
        ({"sample_rate": "loud"}, "sample_rate: 'loud' is not a whole number"),
        ({"speed": "9"}, "speed: 9 lies outside 0.25…4"),
        ({"speed": "nan"}, "speed: 'nan' is not a number"),
        ({"speed": "-1"}, "speed: '-1' is not a number"),
        ({"seed": str(2**63)}, "seed: "),
        ({"voice": "nobody"}, "has no 'nobody'; voices: kathleen, slt"),
        ({"voice": "../../etc/passwd"}, "has no '../../etc/passwd'"),
        ({"language": "de"}, "speaks en, not 'de'"),
        ({"model": "aura-2-luna-es"}, "speaks en, not 'es'"),
        ({"model": "nova-3"}, "'nova-3' is not loaded; 'pocket-tts-en' is"),
        ({"instructions": "whisper"}, "pocket-tts-en does not follow instructions"),
        ({"marks": "maybe"}, "marks: 'maybe' is not true or false"),
    ],
)
def test_a_wrong_parameter_is_named_before_the_upgrade(voice: Voice, query: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidStatus) as refused, voice.open(**query):
        pass
    assert refused.value.response.status_code == 400
    body = json.loads(refused.value.response.body or b"")
    assert body["err_code"] == "Bad Request"
    assert says in body["err_msg"]


@pytest.mark.parametrize("name", ["alloy", "nova", "default", "ALLOY"])
def test_openais_voices_mean_the_first(voice: Voice, offline: Callable[..., bytes], name: str) -> None:
    audio, _ = voice.speak(SHORT, voice=name)
    assert same(audio, offline(SHORT))


def test_plain_http_is_told_to_upgrade(talker: Background) -> None:
    assert httpx.get(talker.url + "/v1/speak").status_code == 426
    assert httpx.post(talker.url + "/v1/speak", json={"text": "hi"}).status_code == 426


def test_a_daemon_without_a_voice_says_so(daemon: Background) -> None:
    with pytest.raises(InvalidStatus) as refused, Voice(daemon.url).open():
        pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body or b"")["err_msg"] == "no speaking model is loaded (tts_model)"
    for answer in (
        httpx.post(daemon.url + "/v1/audio/speech", json={"input": "hello"}),
        httpx.get(daemon.url + "/v1/audio/voices"),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "no_speaking_model"
    assert [card["does"] for card in httpx.get(daemon.url + "/v1/models").json()["data"]] == ["hearing"]
    assert httpx.get(daemon.url + "/readyz").json() == {"status": "ready", "speaking": False}


def test_readiness_tells_that_it_speaks(talker: Background) -> None:
    assert httpx.get(talker.url + "/readyz").json() == {"status": "ready", "speaking": True}


def test_what_is_not_understood_is_answered_and_the_stream_goes_on(voice: Voice, offline: Callable[..., bytes]) -> None:
    with voice.open() as socket:
        for text in (
            "hello",
            "[]",
            '{"type": "Sing"}',
            '{"type": "Speak"}',
            '{"type": "Speak", "text": 7}',
            "[" * 9999,
        ):
            socket.send(text)
            _, messages = until(socket, "Warning")
            assert messages[-1]["code"] == "NOT_UNDERSTOOD"
        socket.send(b"\x00\x01")
        assert until(socket, "Warning")[1][-1]["code"] == "BINARY"
        tell(socket, "Speak", text="x" * 65_537)
        warning = until(socket, "Warning")[1][-1]
        assert warning["code"] == "TEXT_LIMIT"
        assert "65537 characters would wait to be spoken, the limit is 65536" in warning["description"]
        tell(socket, "Speak", text="")
        tell(socket, "Speak", text="\x00\x07 \x1b[31m \u202e !!! \U0001f600")
        tell(socket, "Flush")
        until(socket, "Flushed")
        tell(socket, "Clear")  # the next piece is the first again, whatever of that could be spoken
        tell(socket, "Speak", text=SHORT)
        tell(socket, "Close")
        audio, _ = taken(socket)
        assert same(audio, offline(SHORT))
        assert socket.close_code == 1000


@given(st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=60)), max_size=6))
@settings(max_examples=25, deadline=None)
def test_any_message_is_survived(voice: Voice, rubbish: list[bytes | str]) -> None:
    with voice.open() as socket:
        for message in rubbish:
            socket.send(message)
        tell(socket, "Close")
        _, messages = taken(socket)
        assert {m["type"] for m in messages} <= {"Metadata", "Warning"}
        assert socket.close_code == 1000


def test_a_message_too_large_closes_with_1009(talk: Start) -> None:
    with talk(max_frame_bytes=2048) as background, Voice(background.url).open() as socket:
        tell(socket, "Speak", text="a" * 3000)
        taken(socket)
        assert socket.close_code == 1009


def test_an_idle_stream_is_closed_but_not_while_it_speaks_or_plays(talk: Start) -> None:
    with talk(idle_seconds=0.5) as background:
        voice = Voice(background.url)
        with voice.open() as socket:
            began = time.monotonic()
            tell(socket, "Speak", text=SHORT)
            tell(socket, "Flush")
            audio, _ = until(socket, "Flushed")
            _, messages = taken(socket)
            assert socket.close_code == 1011
            assert messages[-1]["type"] == "Error"
            assert messages[-1]["description"].startswith("NET-0001: nothing to say and no KeepAlive for 0.5 s")
            assert time.monotonic() - began > len(audio) / 48_000, "the client was still playing"
    with talk(idle_seconds=3) as background, Voice(background.url).open() as socket:
        for _ in range(14):
            time.sleep(0.25)
            tell(socket, "KeepAlive")
        tell(socket, "Close")
        taken(socket)
        assert socket.close_code == 1000


def test_a_long_session_ends(talk: Start) -> None:
    with talk(max_session_seconds=1) as background, Voice(background.url).open() as socket:
        tell(socket, "Speak", text=LONG)
        _, messages = taken(socket)
        assert socket.close_code == 1008
        assert "max_session_seconds" in messages[-1]["description"]


def test_one_too_many_is_refused(talk: Start) -> None:
    with talk(speakers=2) as background:
        voice = Voice(background.url)
        with voice.open(), voice.open():
            with pytest.raises(InvalidStatus) as refused, voice.open():
                pass
            response = refused.value.response
            assert (response.status_code, response.headers["retry-after"]) == (429, "5")
            assert json.loads(response.body or b"")["err_msg"] == "all 2 speakers are taken (speakers)"
            answer = httpx.post(background.url + "/v1/audio/speech", json={"input": "hello"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "speakers")
        assert eventually(lambda: background.hub.taken == 0)
        assert voice.speak(SHORT)[0]


def test_the_key_is_asked_for(talk: Start) -> None:
    with talk(api_key=("a-key-of-speech",)) as background:
        voice = Voice(background.url)
        with pytest.raises(InvalidStatus) as refused, voice.open():
            pass
        assert refused.value.response.status_code == 401
        for path in ("/v1/audio/voices", "/v1/audio/voices/slt"):
            assert httpx.get(background.url + path).status_code == 401
        with voice.open(options={"additional_headers": {"Authorization": "Token a-key-of-speech"}}) as socket:
            assert json.loads(socket.recv())["type"] == "Metadata"


def test_drain_lets_a_stream_speak_on_and_then_ends_it(talk: Start) -> None:
    """``Background.__exit__`` drains with no time left: what speaks then stops at once and closes with 1012."""
    with talk() as background:
        voice = Voice(background.url)
        ended: list[Any] = []

        def listen(socket: ClientConnection) -> None:
            ended.append((taken(socket)[1], socket.close_code))

        socket = voice.open().__enter__()
        tell(socket, "Speak", text=LONG)
        while not isinstance(socket.recv(120), bytes):
            pass
        listening = threading.Thread(target=listen, args=(socket,))
        listening.start()
        background.hub.drain()
        time.sleep(0.1)
        assert not ended
    listening.join(120)
    messages, code = ended[0]
    assert code == 1012
    assert {message["type"] for message in messages} <= {"Metadata"}
    socket.close()
