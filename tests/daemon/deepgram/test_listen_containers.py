"""``/v1/listen`` without ``encoding``: what browsers and SDKs send in containers is heard as it arrives."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import numpy as np
import pytest
import soxr
from websockets.exceptions import ConnectionClosed

from audio.container import ContainerDecoder
from audio.pcm import Samples
from audio.wire import ContainerStream
from daemon.serve import Background
from tests.audio.containers import KINDS, contained
from tests.daemon.support import RATE, Client, Speech, decoded, finals, send, until

Start = Callable[..., AbstractContextManager[Background]]

LOSSLESS = ("flac", "ogg flac", "wav")


def wrapped(kind: str, speech: Speech) -> bytes:
    """The recording in a container; lossy ones at 48 kHz, as browsers record."""
    pcm = np.frombuffer(speech.pcm, "<i2")
    if kind in LOSSLESS:
        return contained(kind, pcm[:, None], RATE)
    rate = KINDS[kind].rate or 48_000
    return contained(kind, soxr.resample(pcm, RATE, rate)[:, None], rate)


def words(messages: list[dict[str, Any]]) -> list[str]:
    """Of the finals, bare."""
    return re.findall(r"[a-z']+", finals(messages).lower())


@pytest.mark.parametrize("kind", ["webm", "ogg opus", "ogg flac", "mp3", "flac", "wav", "mp4", "aac", "mpeg-ts", "wma"])
def test_containers_are_heard_as_raw_audio_is(client: Client, speech: Speech, kind: str) -> None:
    """The same text as of the samples that FFmpeg finds in the container, sent raw."""
    data = wrapped(kind, speech)
    samples, rate = decoded(data, kind)
    raw = client.transcribe(np.clip(np.rint(samples * 32768), -32768, 32767).astype("<i2").tobytes(), sample_rate=rate)
    heard = client.transcribe(data, raw=False, piece=777, model="nova-3", interim_results=True)
    assert heard[-1]["duration"] == pytest.approx(speech.seconds, abs=0.15)
    assert heard[-1]["warnings"] == []
    assert finals(heard) == finals(raw) != ""


@pytest.mark.parametrize("encoding", ["opus", "ogg-opus"])
def test_encodings_that_come_in_a_container(client: Client, speech: Speech, encoding: str) -> None:
    query = {"encoding": encoding, "sample_rate": 48_000}
    assert words(client.transcribe(wrapped("ogg opus", speech), raw=False, **query))


def test_interims_come_while_the_container_arrives(client: Client, speech: Speech) -> None:
    """And Finalize is answered before it ends."""
    data = wrapped("webm", speech)
    with client.open(raw=False, interim_results=True) as socket:
        send(socket, data[: len(data) * 3 // 4], 500)
        socket.send('{"type": "Finalize"}')
        said: list[dict[str, Any]] = []
        while not said or not said[-1].get("from_finalize"):
            said += until(socket, "Results")[1]
        assert said[-1]["channel"]["alternatives"][0]["transcript"]
        send(socket, data[len(data) * 3 // 4 :], 500)
        socket.send('{"type": "CloseStream"}')
        assert json.loads(list(socket)[-1])["type"] == "Metadata"


def refused(client: Client, data: bytes, **query: Any) -> tuple[list[dict[str, Any]], int | None]:
    """What is said of ``data``, and the close code."""
    messages: list[dict[str, Any]] = []
    with client.open(raw=False, **query) as socket:
        with suppress(ConnectionClosed):
            send(socket, data, 4000)
            socket.send('{"type": "CloseStream"}')
        with suppress(ConnectionClosed):
            for message in socket:
                messages.append(json.loads(message))
        return messages, socket.close_code


@pytest.mark.usefixtures("bystander")
def test_a_broken_container_is_one_clear_error(client: Client) -> None:
    for data, says in [
        (b"\x1aE\xdf\xa3" + bytes(range(256)) * 40, "damaged"),
        (b"\0\0\0\x20ftypisom" + bytes(5000), "it "),
        (b"this is no audio at all" * 10, "none of WebM, Ogg, MP3, FLAC, WAV, MP4, AAC"),
        (b"OggS", "it "),
    ]:
        messages, code = refused(client, data)
        assert code == 1008
        errors = [message for message in messages if message["type"] == "Error"]
        assert len(errors) == 1 and errors[0]["variant"] == "NotDecodable" and says in errors[0]["description"]
        assert messages[-1]["type"] == "Metadata"


def test_what_was_heard_before_an_error_is_said(start: Start, client: Client, speech: Speech) -> None:
    """The finals of what could be decoded, then the error; junk behind a whole file is none."""
    data = wrapped("mp4", speech)
    whole = words(client.transcribe(data, raw=False))
    messages, code = refused(client, data + b"\0\0\0\x40moof" + b"\xff" * 4000)
    assert (words(messages), code) == (whole, 1000)
    with start(max_session_seconds=speech.seconds - 0.5) as daemon:
        messages, code = refused(Client(daemon.url), data)
    assert (messages[-2]["variant"], code) == ("NotDecodable", 1008)
    assert words(messages)[:3] == whole[:3] != []


def test_hours_of_silence_in_a_small_container_are_bounded(start: Start) -> None:
    """A container that holds more than a session may last ends with an error, in bounded memory and time."""
    data = contained("flac", np.zeros((3600 * 8_000, 1), np.int16), 8_000)
    with start(max_session_seconds=60) as daemon:
        messages, code = refused(Client(daemon.url), data)
    assert code == 1008
    error = messages[-2]
    assert error["variant"] == "NotDecodable" and "60 s of audio (max_session_seconds)" in error["description"]
    assert messages[-1]["duration"] <= 61


def test_junk_keeps_nobody_waiting(client: Client, speech: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may wait of it brings no sound, and is not decoded in one go: one thread feeds all streams."""
    taken, pieces = list[int](), ContainerStream.pieces

    def noted(self: ContainerStream, data: bytes, *, last: bool = False) -> Iterator[Samples]:
        taken.append(len(data))
        yield from pieces(self, data, last=last)

    monkeypatch.setattr(ContainerStream, "pieces", noted)
    data = wrapped("ogg opus", speech)
    heard = client.transcribe(data + b"OggS" * 500_000, piece=500_000, raw=False)
    assert words(heard) == words(client.transcribe(data, raw=False)) != []
    assert sum(taken) > 2_000_000 and max(taken) <= 1 << 14


def test_a_sample_rate_without_an_encoding_is_told(client: Client, speech: Speech) -> None:
    messages = client.transcribe(wrapped("webm", speech), raw=False, sample_rate=16_000)
    assert "counts for nothing" in messages[-1]["warnings"][0]


def test_containers_that_take_long_hold_up_no_raw_audio(
    client: Client, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three that FFmpeg does not come back from: a raw stream beside them is heard to its end."""
    data, begun, go = wrapped("webm", speech), threading.Semaphore(0), threading.Event()
    read = ContainerDecoder.read

    def slow(self: ContainerDecoder, size: int) -> bytes:
        begun.release()
        assert go.wait(120)
        return read(self, size)

    expected = finals(client.transcribe(speech.pcm))
    with monkeypatch.context() as patch, ExitStack() as open_ones:
        patch.setattr(ContainerDecoder, "read", slow)
        open_ones.callback(go.set)
        for _ in range(3):
            open_ones.enter_context(client.open(raw=False)).send(data)
        assert begun.acquire(timeout=60)
        assert finals(client.transcribe(speech.pcm)) == expected
