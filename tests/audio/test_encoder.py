"""Files and raw audio, made while the samples come: decoded by others they are the samples, however those were cut."""

import io
import struct

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from audio import encoder
from audio.pcm import PcmDecoder
from tests.daemon.support import decoded

RATE = 24_000
LOSSY = {"mp3": 0.08, "opus": 0.001, "aac": 0.1}
"""Seconds that the format may be longer than the samples: frames are whole, and encoders begin before the sound."""

rng = np.random.default_rng(11)
TONE = (0.3 * np.sin(2 * np.pi * 220 * np.arange(3 * RATE) / RATE)).astype(np.float32)


def made(name: str, samples: npt.NDArray[np.float32], cuts: list[int]) -> bytes:
    """A file of ``samples`` fed in pieces."""
    one = encoder.file(name, RATE)
    data = b"".join([one.feed(piece) for piece in np.split(samples, sorted(cuts)) if piece.size])
    data += b"".join(one.finish())
    one.close()
    return data


@pytest.mark.parametrize("name", encoder.MEDIA_TYPES)
def test_a_file_decodes_to_what_went_in(name: str) -> None:
    samples, rate = decoded(made(name, TONE, list(range(1920, TONE.size, 1920))), name)
    seconds = samples.size / rate
    assert 0 <= seconds - 3 <= LOSSY.get(name, 0)
    if name in LOSSY:
        spectrum = np.abs(np.fft.rfft(samples))
        assert abs(np.argmax(spectrum) / seconds - 220) < 1
        energy = np.sum(samples**2) * RATE / rate / np.sum(TONE**2)
        assert 0.9 < energy < 1.02, "LAME plays 0.95 as loud"
    else:
        np.testing.assert_allclose(samples, TONE, atol=1 / 32768)


@given(st.lists(st.integers(1, TONE.size - 1), max_size=8))
@settings(max_examples=12, deadline=None)
def test_the_cuts_do_not_matter(cuts: list[int]) -> None:
    for name in ("wav", "pcm", "flac", "mp3"):
        assert made(name, TONE, cuts) == made(name, TONE, []), name
    assert decoded(made("opus", TONE, cuts), "opus")[0].size == decoded(made("opus", TONE, []), "opus")[0].size


@pytest.mark.parametrize("name", ["mp3", "opus", "aac", "wav", "pcm"])
def test_audio_goes_out_while_it_is_made(name: str) -> None:
    """Of the first half second of samples, at least a quarter can be decoded from what has gone out by then."""
    one = encoder.file(name, RATE)
    data = b"".join(one.feed(piece) for piece in np.split(TONE[: RATE // 2], 6))
    samples, rate = decoded(data, name)
    one.close()
    assert samples.size / rate >= 0.25


@pytest.mark.parametrize("name", encoder.MEDIA_TYPES)
def test_a_file_that_is_given_up_leaves_nothing(name: str) -> None:
    one = encoder.file(name, RATE)
    one.feed(TONE[:5000])
    one.close()
    one.close()
    encoder.file(name, RATE).close()


def test_flac_tells_its_length_and_wav_does_not() -> None:
    with soundfile.SoundFile(io.BytesIO(made("flac", TONE, []))) as file:
        assert file.frames == TONE.size
    wav = made("wav", TONE, [])
    assert struct.unpack_from("<I", wav, 4)[0] == struct.unpack_from("<I", wav, 40)[0] == 0xFFFFFFFF
    assert soundfile.info(io.BytesIO(wav)).frames == TONE.size


@pytest.mark.parametrize("name", encoder.RAW)
@given(st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=50), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_raw_audio_is_what_listening_reads(name: str, values: list[float], cut: int) -> None:
    """Louder than full scale is clipped, not wrapped; nothing is held back; cuts do not matter."""
    samples = np.array(values, np.float32)
    one = encoder.raw(name, 16_000)
    data = b"".join(one.feed(piece) for piece in np.split(samples, [min(cut, samples.size)]) if piece.size)
    assert b"".join(one.finish()) == b""
    one.close()
    heard = PcmDecoder(name, 16_000, 1, 16_000).decode(data)
    assert heard.size == samples.size
    clipped = np.clip(samples, -1, 1)
    tolerance = {"linear16": 1.5 / 32768, "float32": 0.0}.get(name, 0.0)
    if name in ("mulaw", "alaw"):
        np.testing.assert_allclose(heard, clipped, rtol=0.05, atol=0.01)
    else:
        np.testing.assert_allclose(heard, clipped, atol=tolerance)


@pytest.mark.parametrize("encoding", ["linear16", "float32", "mulaw", "alaw"])
def test_what_is_no_number_is_silence(encoding: str) -> None:
    """LAME ends the process at a NaN; the other encoders would pass it on."""
    broken = np.array([0.5, np.nan, np.inf, -np.inf, 2.0, -0.25], np.float32)
    mended = np.array([0.5, 0.0, 0.0, 0.0, 1.0, -0.25], np.float32)
    assert encoder.raw(encoding, RATE).feed(broken) == encoder.raw(encoding, RATE).feed(mended)
