"""PcmDecoder: every encoding against an independent reference, and the same samples for every cut of the bytes."""

import struct

import numpy as np
import numpy.typing as npt
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from audio.pcm import ENCODINGS, FormatError, PcmDecoder


def whole(decoder: PcmDecoder, data: bytes) -> npt.NDArray[np.float32]:
    return np.concatenate([decoder.decode(data), decoder.flush()])


def cut(decoder: PcmDecoder, data: bytes, cuts: list[int]) -> npt.NDArray[np.float32]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return np.concatenate(
        [*(decoder.decode(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)), decoder.flush()]
    )


def noise(encoding: str, frames: int, channels: int, seed: int) -> bytes:
    random = np.random.default_rng(seed)
    if encoding == "float32":
        return random.normal(0, 0.4, frames * channels).astype("<f4").tobytes()
    return random.bytes(frames * channels * (2 if encoding == "linear16" else 1))


@given(
    encoding=st.sampled_from(ENCODINGS),
    rate=st.sampled_from([8000, 11025, 16000, 22050, 24000, 44100, 48000, 47999]),
    channels=st.integers(1, 8),
    frames=st.integers(0, 6000),
    cuts=st.lists(st.integers(0, 2**20), max_size=40),
    seed=st.integers(0, 9),
)
def test_cuts_do_not_matter(encoding: str, rate: int, channels: int, frames: int, cuts: list[int], seed: int) -> None:
    """Bytes cut anywhere, inside a sample too, give bit-identical samples in total."""
    data = noise(encoding, frames, channels, seed)
    expected = whole(PcmDecoder(encoding, rate, channels), data)
    np.testing.assert_array_equal(cut(PcmDecoder(encoding, rate, channels), data, cuts), expected)
    assert expected.dtype == np.float32
    assert abs(len(expected) - frames * 16000 / rate) <= 1
    assert np.abs(expected).max(initial=0) <= 1


@pytest.mark.parametrize("step", [1, 3, 7, 160, 961])
def test_fixed_small_cuts(step: int) -> None:
    """A stream of single bytes or of other small pieces resamples to the same bits as the whole."""
    data = noise("linear16", 12_000, 2, 5)
    decoder = PcmDecoder("linear16", 48_000, 2)
    pieces = [decoder.decode(data[i : i + step]) for i in range(0, len(data), step)]
    np.testing.assert_array_equal(
        np.concatenate([*pieces, decoder.flush()]), whole(PcmDecoder("linear16", 48_000, 2), data)
    )


def test_linear16_is_little_endian() -> None:
    """The least significant byte comes first, and full scale is -1."""
    samples = whole(PcmDecoder("linear16", 16_000), struct.pack("<4h", 0, 16384, -32768, 32767))
    np.testing.assert_array_equal(samples, np.array([0, 0.5, -1, 32767 / 32768], np.float32))


def test_float32_is_made_safe() -> None:
    """NaN and infinities become 0, what lies beyond full scale is clipped, the rest stays as it is."""
    samples = whole(
        PcmDecoder("float32", 16_000), struct.pack("<6f", float("nan"), float("inf"), -float("inf"), 3, -1e30, 0.25)
    )
    np.testing.assert_array_equal(samples, np.array([0, 0, 0, 1, -1, 0.25], np.float32))


def mulaw_by_the_standard(byte: int) -> float:
    """G.711 table 2, note: invert all bits; value = (2·step + 33) · 2^segment - 33 on the 14-bit scale."""
    byte ^= 0xFF
    value = (2 * (byte & 15) + 33) * 2 ** ((byte >> 4) & 7) - 33
    return (-value if byte & 0x80 else value) * 4 / 32768


def alaw_by_the_standard(byte: int) -> float:
    """G.711 table 1: even bits are inverted; segment 0 is linear, the others double, on the 13-bit scale."""
    byte ^= 0x55
    step, segment = byte & 15, (byte >> 4) & 7
    value = 2 * step + 1 if segment == 0 else (2 * step + 33) * 2 ** (segment - 1)
    return (value if byte & 0x80 else -value) * 8 / 32768


@pytest.mark.parametrize(("encoding", "reference"), [("mulaw", mulaw_by_the_standard), ("alaw", alaw_by_the_standard)])
def test_g711_tables_follow_the_standard(encoding: str, reference: object) -> None:
    """Each of the 256 codes decodes to the value that the formula of ITU-T G.711 gives."""
    assert callable(reference)
    expected = np.array([reference(byte) for byte in range(256)], np.float32)
    np.testing.assert_array_equal(whole(PcmDecoder(encoding, 16_000), bytes(range(256))), expected)


def test_channels_are_mixed_to_their_mean() -> None:
    """Interleaved channels become their mean, sample by sample."""
    frames = np.array([[0.5, -0.5, 0.25], [1, 1, 1], [0, 0.3, 0]], "<f4")
    samples = whole(PcmDecoder("float32", 16_000, 3), frames.tobytes())
    np.testing.assert_allclose(samples, frames.mean(axis=1), atol=1e-7)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_a_tone_survives_resampling(rate: int) -> None:
    """A 1 kHz tone comes out at 1 kHz, in time and in amplitude, as soxr's whole-clip resampler has it."""
    tone = (0.5 * np.sin(2 * np.pi * 1000 * np.arange(rate) / rate)).astype("<f4")
    samples = whole(PcmDecoder("float32", rate), tone.tobytes())
    expected = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
    np.testing.assert_allclose(samples[800:-800], expected[800:-800], atol=1e-4)
    np.testing.assert_array_equal(samples, soxr.resample(tone, rate, 16_000, quality="HQ"))


def test_no_resampler_no_delay() -> None:
    """At the target rate every sample comes out at once."""
    assert len(PcmDecoder("mulaw", 16_000).decode(b"\x00" * 7)) == 7
    assert len(PcmDecoder("linear16", 24_000, target_rate=24_000).decode(b"\x00" * 8)) == 4


def test_an_unfinished_frame_is_counted_and_dropped() -> None:
    """Bytes short of a frame are held, reported, and dropped at the end of the stream."""
    decoder = PcmDecoder("linear16", 16_000, 2)
    assert len(decoder.decode(b"\x01\x02\x03\x04\x05")) == 1
    assert decoder.held_bytes == 1
    assert len(decoder.flush()) == 0
    assert decoder.held_bytes == 0


def test_flush_ends_the_stream() -> None:
    """After flush nothing more comes out, and more bytes are refused."""
    decoder = PcmDecoder("linear16", 8_000)
    decoder.decode(noise("linear16", 800, 1, 1))
    assert len(decoder.flush()) > 0
    assert len(decoder.flush()) == 0
    with pytest.raises(RuntimeError, match="flushed"):
        decoder.decode(b"\x00\x00")


@pytest.mark.parametrize(
    ("arguments", "field", "limit"),
    [
        (("opus", 16_000, 1), "encoding", "linear16, float32, mulaw, alaw"),
        (("linear16", 7_999, 1), "sample_rate", "8000…48000"),
        (("linear16", 96_000, 1), "sample_rate", "8000…48000"),
        (("linear16", 16_000, 0), "channels", "1…8"),
        (("linear16", 16_000, 9), "channels", "1…8"),
    ],
)
def test_wrong_formats_name_field_and_limit(arguments: tuple[str, int, int], field: str, limit: str) -> None:
    """A format outside the limits is refused with the field and the limit in the message."""
    with pytest.raises(FormatError, match=limit) as caught:
        PcmDecoder(*arguments)
    assert caught.value.field == field
