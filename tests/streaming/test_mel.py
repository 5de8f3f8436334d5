"""Log-mel features, compared with their definition in double precision, and the same bits however samples are cut."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audio.mel_filters import mel_filters
from engines.manifest import ClipFloor, FixedFloor, Mel
from streaming.mel import LogMel, MelStream, load_filters, normalise, official_length

FILTERS = {bins: mel_filters(bins) for bins in (80, 128)}


def log_mel(bins: int = 128, floor: FixedFloor | ClipFloor | None = None) -> LogMel:
    entry = Mel(sample_rate=16_000, n_fft=400, hop_length=160, bins=bins, filters="mel.npy", floor=floor or ClipFloor())
    return LogMel(entry, FILTERS[bins])


def by_definition(samples: npt.NDArray[np.float32], bins: int = 128) -> npt.NDArray[np.float64]:
    """The log10 mel energies in double precision, frame by frame, with the Fourier sum written out."""
    padded = np.pad(samples.astype(np.float64), 200, mode="reflect")
    window = np.sin(np.pi * np.arange(400) / 400) ** 2
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(201), np.arange(400)) / 400)
    frames = [FILTERS[bins] @ np.abs(fourier @ (padded[160 * t : 160 * t + 400] * window)) ** 2
              for t in range(len(samples) // 160)]  # fmt: skip
    return np.log10(np.maximum(np.array(frames).reshape(-1, bins).T, 1e-10))


def sound(samples: int, seed: int, dynamics: float = 4.0) -> npt.NDArray[np.float32]:
    """Noise, tones and near-silence, so that energies span many decades."""
    random = np.random.default_rng(seed)
    time = np.arange(samples) / 16_000
    tones = sum(np.sin(2 * np.pi * f * time) for f in random.uniform(60, 7000, 5)) / 10
    envelope = 10 ** (-dynamics * (0.5 + 0.5 * np.sin(2 * np.pi * random.uniform(0.5, 5) * time)))
    return ((tones + random.normal(0, 0.1, samples)) * envelope).astype(np.float32)


@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("samples", [201, 359, 360, 1599, 1600, 8000, 16_123, 127_840])
def test_it_follows_the_definition(samples: int, bins: int) -> None:
    """A clip's energies differ from the double-precision definition by less than 1e-4 in log10."""
    clip = sound(samples, samples)
    energies = log_mel(bins).log10(clip)
    assert energies.shape == (bins, samples // 160)
    assert energies.dtype == np.float32
    np.testing.assert_allclose(energies, by_definition(clip, bins), atol=1e-5)


def test_quiet_bins_beside_a_loud_tone() -> None:
    """A full-scale tone does not drown the noise 100 dB below it in rounding errors."""
    time = np.arange(16_000) / 16_000
    quiet = np.random.default_rng(1).normal(0, 1e-5, 16_000)
    clip = (0.9 * np.sin(2 * np.pi * 1000 * time) + quiet).astype(np.float32)
    np.testing.assert_allclose(log_mel().log10(clip), by_definition(clip), atol=1e-5)


def test_digital_silence_is_the_clamp() -> None:
    """Zeros give -10 everywhere, with no warning from the logarithm."""
    assert np.all(log_mel().log10(np.zeros(1600, np.float32)) == -10)


@given(
    samples=st.integers(0, 9000),
    cuts=st.lists(st.integers(0, 9000), max_size=60),
    drop=st.booleans(),
    seed=st.integers(0, 5),
)
def test_cuts_do_not_matter(samples: int, cuts: list[int], drop: bool, seed: int) -> None:
    """Fed in any pieces, every stable frame and the tail have the same bits as fed at once."""
    mel, clip = log_mel(), sound(9000, seed)[:samples]
    expected = mel.log10(clip)
    stream, edges, got = MelStream(mel), [0, *sorted(min(c, samples) for c in cuts), samples], []
    taken = 0
    for a, b in zip(edges, edges[1:], strict=False):
        stream.feed(clip[a:b])
        whole = mel.log10(clip[:b])
        assert whole.shape[1] == b // 160
        np.testing.assert_array_equal(np.concatenate([stream.frames(taken, stream.stable), stream.tail()], axis=1),
                                      whole[:, taken:])  # fmt: skip
        if drop:
            got.append(stream.frames(taken, stream.stable))
            taken = stream.stable
            stream.drop(taken)
    got.append(np.concatenate([stream.frames(taken, stream.stable), stream.tail()], axis=1))
    np.testing.assert_array_equal(np.concatenate(got, axis=1), expected)


@given(samples=st.integers(0, 9000), more=st.integers(1, 4000))
def test_stable_frames_are_stable(samples: int, more: int) -> None:
    """Frames called stable keep their bits whatever follows, and at most two of a clip's frames are not stable."""
    mel, clip = log_mel(), sound(13_000, 3)
    stream = MelStream(mel)
    stream.feed(clip[:samples])
    stable = stream.stable
    assert samples // 160 - 2 <= stable <= samples // 160
    before = stream.frames(0, stable)
    other = np.concatenate([clip[:samples], -0.5 * clip[:more]])
    np.testing.assert_array_equal(mel.log10(other)[:, :stable], before)


def test_a_long_feed_equals_short_ones() -> None:
    """Feeds longer than a computing block, 10 ms pieces and one whole give the same bits."""
    mel, clip = log_mel(), sound(160_000, 6)
    at_once, bit_by_bit = MelStream(mel), MelStream(mel)
    at_once.feed(clip)
    for start in range(0, len(clip), 160):
        bit_by_bit.feed(clip[start : start + 160])
    assert at_once.stable == bit_by_bit.stable == 999
    np.testing.assert_array_equal(bit_by_bit.frames(0, 999), at_once.frames(0, 999))
    np.testing.assert_array_equal(bit_by_bit.tail(), at_once.tail())


def test_memory_is_bounded_by_drop() -> None:
    """An hour with frames dropped as they are used keeps a few samples and frames only."""
    stream, piece = MelStream(log_mel()), sound(16_000, 7)
    for _ in range(3600):
        stream.feed(piece)
        stream.drop(stream.stable - 100)
    assert stream.stable == 359_999
    assert stream.kept_from == 359_899
    assert stream._samples.nbytes <= 4 * 560  # pyright: ignore[reportPrivateUsage]
    assert stream._rows.nbytes <= 4 * 128 * 512  # pyright: ignore[reportPrivateUsage]


def test_frames_that_are_not_here_are_refused() -> None:
    """Dropped frames and frames still open raise IndexError naming what is here."""
    stream = MelStream(log_mel())
    stream.feed(np.zeros(16_000, np.float32))
    stream.drop(10)
    with pytest.raises(IndexError, match="10…99"):
        stream.frames(9, 20)
    with pytest.raises(IndexError, match="10…99"):
        stream.frames(10, 100)
    stream.drop(5)
    assert stream.frames(10, 99).shape == (128, 89)


def test_the_two_floors() -> None:
    """A clip's features use the manifest's floor: a constant, or its own maximum minus the range."""
    clip = sound(16_000, 8, dynamics=6)
    energies = log_mel().log10(clip)
    relative = log_mel(floor=ClipFloor(range=3)).clip(clip)
    np.testing.assert_array_equal(relative, normalise(energies, float(energies.max()) - 3))
    assert relative.min() == np.float32((np.float32(energies.max() - 3) + 4) / 4)
    fixed = log_mel(floor=FixedFloor(log10=-4)).clip(clip)
    np.testing.assert_array_equal(fixed, np.maximum((energies + 4) / 4, 0))
    assert fixed.dtype == relative.dtype == np.float32


def test_normalise_on_known_values() -> None:
    """Values below the floor are raised to it, then (x + 4) / 4."""
    np.testing.assert_array_equal(normalise(np.array([-10, -4, 0, 2], np.float32), -6), np.array([-0.5, 0, 1, 1.5]))


def test_official_length() -> None:
    """Clips under half a second count as half a second."""
    assert [official_length(n) for n in (0, 1600, 7999, 8000, 8001)] == [8000, 8000, 8000, 8000, 8001]
    assert official_length(10, 24_000) == 12_000


def test_filters_are_checked(tmp_path: Path) -> None:
    """A filter bank of another type or shape is refused with what was expected."""
    path = tmp_path / "mel.npy"
    np.save(path, FILTERS[128])
    np.testing.assert_array_equal(load_filters(path), FILTERS[128])
    with pytest.raises(ValueError, match=r"\(128, 201\).*\(80, 201\)"):
        LogMel(log_mel(80).mel, load_filters(path))
    np.save(path, FILTERS[128].astype(np.float64))
    with pytest.raises(ValueError, match="float32"):
        load_filters(path)
