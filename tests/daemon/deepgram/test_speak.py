"""``/v1/speak`` over real sockets: text in, audio out, Deepgram's messages around them."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect

from audio.encoder import RAW
from audio.pcm import PcmDecoder
from daemon.serve import Background
from daemon.speaking import Playback
from tests.daemon.support import LONG, PATIENT, SHORT, Voice, same, taken, tell, until

Start = Callable[..., AbstractContextManager[Background]]


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
        with connect(voice.socket_url, proxy=None, **PATIENT) as socket:
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
        words = pieces[0]["words"]
        assert [SHORT[word["start_char"] : word["end_char"]] for word in words] == SHORT.split()
        assert all(0 <= word["start"] <= word["end"] <= pieces[0]["end"] for word in words)


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


def test_the_first_message_is_one_frame(voice: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that sound starts; then groups grow with what the client has to play: it plays nothing meanwhile, so that it
    has ever more, however slowly that is made."""
    monkeypatch.setattr("daemon.speaking.Playback", partial(Playback, lambda: 100.0))
    with voice.open() as socket:
        socket.recv()
        tell(socket, "Speak", text=LONG)
        sizes = [len(socket.recv(120)) for _ in range(12)]
        tell(socket, "Clear")
    assert sizes[0] == 3840
    assert max(sizes) >= 4 * 3840
    assert all(size % 2 == 0 for size in sizes)
