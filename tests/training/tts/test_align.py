"""Labels carried from one recording to another."""

import numpy as np
import pytest

pytest.importorskip("torch")

from training.tts.align import features, quiet, transfer, warp
from training.tts.phones import SILENCE


def tones(lengths: list[int], pitches: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Harmonic tones of `lengths` labels each (0.0: silence), int16 at 24 kHz, and their labels."""
    parts, labels = [], []
    for number, (length, pitch) in enumerate(zip(lengths, pitches, strict=True)):
        at = np.arange(length * 480) / 24000
        part = sum(np.sin(2 * np.pi * pitch * k * at) / k for k in range(1, 6)) if pitch else np.zeros(len(at))
        parts.append(part)
        labels += [number + 1 if pitch else SILENCE] * length
    return (np.concatenate(parts) * 6000).astype(np.int16), np.array(labels, np.uint8)


PITCHES = [150.0, 900.0, 300.0, 0.0, 2500.0, 600.0]


def test_a_recording_warps_onto_itself_without_moving() -> None:
    wave, _ = tones([12, 9, 14, 8, 10, 11], PITCHES)
    rows = features(wave)
    assert warp(rows, rows).tolist() == list(range(len(rows)))


def test_labels_follow_another_tempo() -> None:
    """The other reading is slower in places; labels stay right but for a label or two at the borders."""
    spoken, labels = tones([12, 9, 14, 8, 10, 11], PITCHES)
    wave, truth = tones([20, 8, 22, 15, 9, 16], PITCHES)
    found = transfer(wave, spoken, labels)
    assert np.mean(found == truth) > 0.9


def test_the_path_never_goes_back() -> None:
    random = np.random.default_rng(0)
    path = warp(random.standard_normal((40, 6)).astype(np.float32), random.standard_normal((25, 6)).astype(np.float32))
    assert path[0] >= 0 and path[-1] == 24 and np.all(np.diff(path) >= 0)


def test_silence_is_silence_whatever_the_warping_says() -> None:
    wave, truth = tones([10, 6, 10], [200.0, 0.0, 400.0])
    assert np.array_equal(quiet(wave), truth == SILENCE)
