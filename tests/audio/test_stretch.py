"""Speed without pitch."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audio.stretch import Stretch
from codec.output import FADE_SECONDS, LEAD_SECONDS, LOUD, Output, group_frames

RATE = 24_000


def voice(seconds: float, pitch: float = 130.0) -> npt.NDArray[np.float32]:
    """A buzz with vibrato and syllables: harmonics of ``pitch`` under a moving envelope."""
    t = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * pitch * t
    wave = sum(np.sin(k * phase + k) / k for k in range(1, 12))
    return (0.2 * wave * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))).astype(np.float32)


def stretched(samples: npt.NDArray[np.float32], speed: float, cuts: list[int]) -> npt.NDArray[np.float32]:
    """``samples`` fed in pieces of the given lengths, over and over."""
    stretch = Stretch(speed, RATE)
    parts, at, turn = [], 0, 0
    while at < len(samples):
        parts.append(stretch.feed(samples[at : at + cuts[turn % len(cuts)]]))
        at += cuts[turn % len(cuts)]
        turn += 1
    return np.concatenate([*parts, stretch.flush()])


@pytest.mark.parametrize("speed", [0.25, 0.5, 0.8, 1.25, 2.0, 4.0])
def test_the_length_changes_and_the_pitch_does_not(speed: float) -> None:
    """Length to the sample; the fundamental stays within 1 %; nothing clips or clicks."""
    samples = voice(2.0)
    out = stretched(samples, speed, [1920])
    assert len(out) == round(len(samples) / speed)
    spectrum = np.abs(np.fft.rfft(out * np.hanning(len(out)), 1 << 18))
    low = spectrum[: int(200 / RATE * (1 << 18))]
    assert low.argmax() * RATE / (1 << 18) == pytest.approx(130.0, rel=0.01)
    assert np.abs(out).max() < 1.3 * np.abs(samples).max()
    body = out[200 : len(out) - int(0.05 * RATE / min(speed, 1.0))]  # the sound itself stops abruptly
    assert np.abs(np.diff(body)).max() < 1.6 * np.abs(np.diff(samples)).max()


@settings(max_examples=40)
@given(
    seconds=st.floats(0.0, 0.6),
    speed=st.sampled_from([0.25, 0.7, 1.0, 1.3, 2.5, 4.0]),
    cuts=st.lists(st.integers(1, 4000), min_size=1, max_size=5),
)
def test_cutting_changes_nothing(seconds: float, speed: float, cuts: list[int]) -> None:
    """Bit for bit the same for every way of cutting, also for sounds shorter than a window."""
    samples = voice(seconds)
    np.testing.assert_array_equal(stretched(samples, speed, cuts), stretched(samples, speed, [100_000]))


def test_speed_one_is_the_identity() -> None:
    """No processing at all."""
    samples = voice(0.3)
    np.testing.assert_array_equal(stretched(samples, 1.0, [777]), samples)


def test_a_stretcher_that_was_flushed_begins_anew() -> None:
    """The second stream is what a new stretcher makes of it."""
    stretch, samples = Stretch(1.5, RATE), voice(0.4)
    for _ in range(2):
        out = np.concatenate([stretch.feed(samples), stretch.flush()])
        np.testing.assert_array_equal(out, stretched(samples, 1.5, [100_000]))


def test_output_resamples_after_the_stretch() -> None:
    """24 kHz at double speed to 8 kHz: a sixth of the samples."""
    output, samples = Output(2.0, RATE, 8_000), voice(1.2)
    out = np.concatenate([output.feed(samples), output.flush()])
    assert out.dtype == np.float32
    assert len(out) == pytest.approx(len(samples) / 6, abs=2)


@given(cuts=st.lists(st.integers(1, 700), min_size=1, max_size=6), hums=st.integers(0, 3_000))
def test_every_piece_begins_softly(cuts: list[int], hums: int) -> None:
    """However it comes in: silence instead of a hum, for 80 ms at most, then from nothing to its own samples in 20 ms;
    and the next piece again."""
    lead, fade = round(LEAD_SECONDS * RATE), round(FADE_SECONDS * RATE)
    output, begin = Output(1.0, RATE, RATE), min(hums, lead)
    samples = np.concatenate([np.full(hums, LOUD, np.float32), np.ones(2_000, np.float32)])
    for _ in range(2):
        parts, at = [], 0
        for turn in range(len(samples)):
            parts.append(output.feed(samples[at : at + cuts[turn % len(cuts)]]))
            at += cuts[turn % len(cuts)]
        out = np.concatenate([*parts, output.flush()])
        gains = out[begin : begin + fade] / samples[begin : begin + fade]
        assert not out[:begin].any() and gains[0] == 0 and gains[fade // 2] == pytest.approx(0.5, abs=0.01)
        assert (np.diff(gains) >= 0).all()
        np.testing.assert_array_equal(out[begin + fade :], samples[begin + fade :])
    np.testing.assert_array_equal(samples[hums:], 1)


def test_groups_begin_with_one_frame_and_fit_the_buffer() -> None:
    """One frame first whatever is buffered; then at most half of what the client still has to play."""
    assert group_frames(0, 30.0, 0.08) == 1
    assert [group_frames(made, None, 0.08) for made in range(10)] == [1, 1, 2, 2, 4, 4, 8, 8, 12, 12]
    assert [group_frames(made, None, 0.08, 4) for made in range(8)] == [1, 1, 2, 2, 4, 4, 4, 4]
    assert [group_frames(1, buffered, 0.08, 4) for buffered in (0.0, 0.5, 10.0)] == [1, 3, 4]
    assert [group_frames(1, buffered, 0.08) for buffered in (0.0, 0.2, 0.5, 1.0, 10.0)] == [1, 1, 3, 6, 12]
