"""Containers as they arrive: recognised by their beginning, the same samples however they are cut, bounded."""

import io
import threading
from collections.abc import Iterator, Sequence

import av
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from audio.container import CONTAINERS, ContainerDecoder, ContainerError, recognised
from audio.pcm import DecodeError, Samples
from audio.recording import RecordingError, samples
from audio.sound import Wanted
from audio.wire import ContainerStream
from tests.audio.containers import KINDS, boastful, contained, tone

RATE = 16_000
LIVE = [kind for kind, how in KINDS.items() if how.live]


def decoded(data: bytes, cuts: Sequence[int] = (), most_seconds: float = float("inf")) -> Samples:
    """``data`` through a stream, cut at ``cuts``."""
    stream = ContainerStream(Wanted(RATE), most_seconds)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        found = [piece for a, b in zip(edges, edges[1:], strict=False) for piece in stream.pieces(data[a:b])]
        found += stream.pieces(b"", last=True)
    finally:
        stream.close()
    return np.concatenate([*found, np.zeros(0, np.float32)])


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "hearsay-container"]


@pytest.mark.parametrize(("kind", "channels"), [(k, n) for k in LIVE for n in (1, 2) if KINDS[k].takes(n)])
def test_the_sound_comes_out(kind: str, channels: int) -> None:
    """Length and pitch survive, in mono and stereo."""
    data = tone(kind, channels=channels)
    assert recognised(data[:12]) == KINDS[kind].name
    heard = decoded(data)
    assert heard.size / RATE == pytest.approx(1.0, abs=0.1)  # encoders pad
    assert np.argmax(np.abs(np.fft.rfft(heard))) * RATE / heard.size == pytest.approx(220, abs=2)
    assert 0.1 < np.abs(heard).max() < 0.6


@pytest.mark.parametrize("kind", ["webm", "ogg opus", "mp3", "mp4", "aac", "wav"])
def test_sound_comes_out_before_all_of_it_is_there(kind: str) -> None:
    """After half of a second's bytes at least a quarter of a second is there."""
    data = tone(kind)
    stream = ContainerStream(Wanted(RATE))
    try:
        size = sum(piece.size for piece in stream.pieces(data[: len(data) // 2]))
    finally:
        stream.close()
    assert size >= RATE / 4


def test_what_comes_out_is_made_as_it_is_taken() -> None:
    """An hour of silence in 660 KB comes in pieces of about a quarter of a second, and a limit ends it."""
    data = contained("flac", np.zeros((3600 * 8_000, 1), np.int16), 8_000)
    assert len(data) < 700_000
    stream = ContainerStream(Wanted(RATE), most_seconds=120)
    sizes: list[int] = []
    with pytest.raises(ContainerError, match=r"more than 120 s of audio"):
        for piece in stream.pieces(data):
            sizes.append(piece.size)
    stream.close()
    assert max(sizes) < RATE and sum(sizes) <= 120 * RATE


@pytest.mark.parametrize("kind", LIVE)
@given(st.integers(0, 1 << 20), st.binary(min_size=1, max_size=64))
@example(28, b"\1")
@settings(max_examples=15)
def test_a_damaged_container_is_an_error_or_sound_never_a_hang(kind: str, at: int, junk: bytes) -> None:
    """Where a field says that hours are silent, as one of a CAF's does, the limit of the stream ends it."""
    data = bytearray(tone(kind))
    place = 12 + at % (len(data) - 12)
    data[place : place + len(junk)] = junk
    try:
        heard = decoded(bytes(data), most_seconds=60)
    except DecodeError as error:
        assert str(error)
    else:
        assert heard.size <= 60 * RATE


@given(st.binary(max_size=200))
def test_other_bytes_are_an_error_that_names_what_would_be_understood(junk: bytes) -> None:
    data = b"\x00\x01" + junk
    if recognised(data) is None:
        with pytest.raises(ContainerError, match="WebM, Ogg, MP3"):
            decoded(data)


@pytest.mark.parametrize("name", CONTAINERS)
@given(st.binary(max_size=3000))
@settings(max_examples=20)
def test_rubbish_behind_a_good_beginning_is_an_error(name: str, junk: bytes) -> None:
    decoder = ContainerDecoder(name, Wanted(RATE))
    try:
        with pytest.raises(ContainerError):
            for piece in decoder.pieces(junk, last=True):
                assert piece.size < RATE
            raise ContainerError("rubbish may be decoded to noise")
    finally:
        decoder.close()


def test_a_stream_that_is_left_ends_its_thread() -> None:
    """Before the first byte, in the middle, after an error, twice."""
    for size in (0, 5, 2000):
        stream = ContainerStream(Wanted(RATE))
        next(stream.pieces(tone("webm")[:size]), None)
        stream.close()
        stream.close()


def test_no_bytes_are_no_sound() -> None:
    assert decoded(b"").size == 0


@pytest.mark.parametrize(("count", "fragments"), [(50_000_000, 1), (2_000_000, 50)])
def test_a_table_that_boasts_takes_no_memory(count: int, fragments: int) -> None:
    """A kilobyte tells of fifty or a hundred million samples: an error, where FFmpeg alone takes 1.7 GiB. FFmpeg 9 does
    not tell that it was memory which it lacked."""
    data = boastful(count, fragments)
    told = "more than 32 MiB" if av.library_versions["libavformat"] < (63,) else "Invalid data"
    with pytest.raises(ContainerError, match=told):
        decoded(data)
    with pytest.raises(RecordingError, match=told):
        list(samples(io.BytesIO(data), RATE))


def test_an_mp4_with_its_index_at_the_end_is_told_what_it_lacks() -> None:
    """Players write such files; only a whole one can be heard."""
    data = tone("mp4")
    index, sound = data.index(b"moov") - 4, data.index(b"moof") - 4
    with pytest.raises(ContainerError, match="if its index stands first"):
        decoded(data[:index] + data[sound:] + data[index:sound])
