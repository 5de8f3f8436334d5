"""The two graphs: rows counted as the convolutions count them, windows that nobody beside them can change."""

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaming.encoder import rows_of
from streaming.model import AsrModel


@given(st.integers(0, 5000))
def test_rows_are_counted_as_three_convolutions_count_them(frames: int) -> None:
    """Each halves a chunk's length, rounding up; 100 frames give 13."""

    def convolved(length: int) -> int:
        for _ in range(3):
            length = (length + 1) // 2
        return length

    whole, rest = divmod(frames, 100)
    assert rows_of(frames, 100, 13) == whole * convolved(100) + convolved(rest)
    assert convolved(100) == 13


def chunk(model: AsrModel, frames: int, seed: int, scale: float = 1.0) -> np.ndarray:
    """Normalised mel values of the usual range."""
    values = np.random.default_rng(seed).standard_normal((model.manifest.mel.bins, frames)).astype(np.float32)
    return np.clip(values * 0.4 * scale, -0.6, 1.4)


def test_an_unfinished_chunk_gives_the_rows_of_its_frames(asr_model: AsrModel) -> None:
    """Zero-padded to 100 frames inside, cut to the valid rows outside."""
    for frames in (1, 8, 9, 57, 99, 100):
        assert len(asr_model.encoder.stem(chunk(asr_model, frames, 1))) == rows_of(frames, 100, 13)


def test_a_window_is_the_same_alone_and_beside_louder_ones(asr_model: AsrModel) -> None:
    """Stem and body: eight windows of different loudness that share a call, each bit-equal to itself alone."""
    model = asr_model
    stems = [model.encoder.stem(chunk(model, 100, i, 1.0 + i)) for i in range(8)]
    windows = [np.concatenate([stems[i], stems[(i + 1) % 8] * (1 + 4 * (i % 2))]) for i in range(8)]
    alone = [model.encoder.body(w) for w in windows]
    together: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    gate = threading.Event()
    blocker = threading.Thread(target=lambda: model.encoder_lane.call(gate.wait))
    blocker.start()
    before = model.encoder_lane.batches

    def one(i: int) -> None:
        together[i] = (model.encoder.stem(chunk(model, 100, i, 1.0 + i)), model.encoder.body(windows[i]).embeddings)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    while model.encoder_lane.waiting < 8:
        pass
    gate.set()
    for thread in [*threads, blocker]:
        thread.join()
    assert model.encoder_lane.batches - before < 1 + 16  # some did share a call
    for i in range(8):
        np.testing.assert_array_equal(together[i][0], stems[i])
        np.testing.assert_array_equal(together[i][1], alone[i].embeddings)
