"""What hides at the beginning of raw audio."""

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from audio.pcm import Shape
from audio.wav_header import NotRaw, RawAudio

ASKED = Shape("linear16", 16_000, 1)
AUDIO = np.arange(-600, 600, dtype="<i2")


def wav(subtype: str = "PCM_16", rate: int = 16_000, format: str = "WAV") -> bytes:
    """A real file with ``AUDIO`` in it."""
    file = io.BytesIO()
    soundfile.write(file, AUDIO if subtype == "PCM_16" else AUDIO / 32768, rate, subtype=subtype, format=format)
    return file.getvalue()


def through(data: bytes, cuts: list[int], asked: Shape = ASKED) -> bytes:
    """``data`` through the stripper, cut at ``cuts``."""
    raw = RawAudio(asked)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    out = b"".join(raw.strip(data[a:b]) for a, b in zip(edges, edges[1:], strict=False))
    return out + raw.rest()


@given(st.binary(max_size=64), st.lists(st.integers(0, 10_000), max_size=8))
def test_raw_audio_passes_untouched(data: bytes, cuts: list[int]) -> None:
    data = b"\x01" + data
    assert through(data, cuts) == data


@given(st.lists(st.integers(0, 100_000), max_size=8))
def test_a_wav_header_is_skipped_however_it_is_cut(cuts: list[int]) -> None:
    assert through(wav(), cuts) == AUDIO.tobytes()


def test_what_looks_like_the_beginning_of_a_header_is_not_lost() -> None:
    for data in (b"R", b"RIF", b"RIFF1234", b"RIFF1234WAVX5678", b"Ogg", b"ID3\x09"):
        assert through(data, [1, 2, 3]) == data


def test_extensible_and_float_headers_are_understood() -> None:
    assert through(wav(format="WAVEX"), []) == AUDIO.tobytes()
    floats = through(wav("FLOAT"), [], ASKED._replace(encoding="float32"))
    assert np.array_equal(np.frombuffer(floats, "<f4"), (AUDIO / 32768).astype("<f4"))


def test_what_follows_the_data_is_not_audio() -> None:
    assert through(wav() + b"LIST\x04\0\0\0INFO", [50, 1000]) == AUDIO.tobytes()


@pytest.mark.parametrize("kept", [12, 30, 43])
def test_a_header_that_is_cut_off_is_no_audio(kept: int) -> None:
    with pytest.raises(NotRaw, match="ends within its header"):
        through(wav()[:kept], [])


def test_a_streamed_header_has_no_length() -> None:
    data = bytearray(wav())
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", 0xFFFFFFFF)
    assert through(bytes(data) * 1, []) == AUDIO.tobytes()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            ASKED._replace(sample_rate=8_000),
            "header says encoding=linear16 sample_rate=16000 channels=1, the request encoding=lin",
        ),
        (ASKED._replace(channels=2), "the request encoding=linear16 sample_rate=16000 channels=2"),
        (ASKED._replace(encoding="mulaw"), "the request encoding=mulaw"),
    ],
)
def test_a_header_that_disagrees_is_an_error_naming_both(asked: Shape, says: str) -> None:
    with pytest.raises(NotRaw) as error:
        through(wav(), [7], asked)
    assert says in str(error.value)


@pytest.mark.parametrize(("format", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("AIFF", "PCM_16")])
def test_other_containers_are_refused(format: str, subtype: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, AUDIO, 16_000, format=format, subtype=subtype)
    with pytest.raises(NotRaw, match="not raw linear16"):
        through(file.getvalue(), [2])


@given(st.lists(st.integers(0, 100), max_size=4))
def test_mp4_is_recognised_by_its_first_box(cuts: list[int]) -> None:
    with pytest.raises(NotRaw, match="this is MP4, not raw linear16"):
        through(b"\0\0\0\x1cftypisom" + bytes(100), cuts)


@given(st.lists(st.integers(0, 100), max_size=4))
def test_zeros_are_silence_not_the_size_of_a_box(cuts: list[int]) -> None:
    for data in (bytes(100), bytes(3), b"\0\0\0\x1cftyq" + bytes(92)):
        assert through(data, cuts) == data


@given(st.binary(max_size=80))
def test_a_broken_header_is_an_error_or_audio_never_a_crash(junk: bytes) -> None:
    try:
        through(b"RIFF\xff\xff\0\0WAVE" + junk, [3, 20])
    except NotRaw:
        pass
