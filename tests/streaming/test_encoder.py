"""The two graphs: rows counted as the convolutions count them, windows that nobody beside them can change."""

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.batching import Lane
from engines.manifest import Phones, read_asr
from engines.onnx import Graph
from streaming.encoder import AudioEncoder, rows_of
from streaming.model import AsrModel
from tests.golden_models import GOLDEN, longer_chunks
from tests.lanes import held, until_waiting


@given(st.integers(0, 5000), st.sampled_from([(100, 13), (200, 25), (400, 50), (60, 8)]))
def test_rows_are_counted_as_three_convolutions_count_them(frames: int, spec: tuple[int, int]) -> None:
    """Each halves a chunk's length, rounding up; 100 frames give 13."""

    def convolved(length: int) -> int:
        for _ in range(3):
            length = (length + 1) // 2
        return length

    chunk_frames, chunk_rows = spec
    whole, rest = divmod(frames, chunk_frames)
    assert rows_of(frames, chunk_frames, chunk_rows) == whole * convolved(chunk_frames) + convolved(rest)
    assert convolved(chunk_frames) == chunk_rows


def chunk(model: AsrModel, frames: int, seed: int, scale: float = 1.0) -> np.ndarray:
    """Normalised mel values of the usual range."""
    values = np.random.default_rng(seed).standard_normal((model.manifest.mel.bins, frames)).astype(np.float32)
    return np.clip(values * 0.4 * scale, -0.6, 1.4)


def test_an_unfinished_chunk_gives_the_rows_of_its_frames(asr_model: AsrModel) -> None:
    """Zero-padded inside, cut to the valid rows outside."""
    spec = asr_model.manifest.encoder
    for frames in (1, 8, 9, 57, 99, spec.chunk_frames):
        expected = rows_of(frames, spec.chunk_frames, spec.chunk_rows)
        assert len(asr_model.encoder.stem(chunk(asr_model, frames, 1))) == expected


@pytest.mark.parametrize("frames", [100, 200, 400])
def test_a_cut_chunk_gives_the_rows_of_the_padded_one(frames: int, tmp_path: Path) -> None:
    """Bit for bit at every length: a row sees no frame of the padding that is left out."""
    directory = GOLDEN / "int8" if frames == 100 else longer_chunks(tmp_path, frames)
    manifest = read_asr(directory)
    spec = manifest.encoder
    stem, body = (Graph(directory / name, threads=2, provider="cpu") for name in (spec.stem, spec.body))
    assert stem.is_dynamic("mel", 2)
    lane = Lane("cut")
    try:
        encoder = AudioEncoder(spec, stem, body, lane, manifest.mel.bins)
        values = np.random.default_rng(5).uniform(-0.6, 1.4, (manifest.mel.bins, frames)).astype(np.float32)
        for length in range(1, frames + 1):
            padded = np.pad(values[:, :length], ((0, 0), (0, frames - length)))
            whole = stem.run({"mel": padded[None]})[0][0][: rows_of(length, frames, spec.chunk_rows)]
            np.testing.assert_array_equal(encoder.stem(values[:, :length]), whole)
        # The frames are seen: the last of a cut chunk matters to its last row.
        other = values[:, :57].copy()
        other[:, 56] += 1
        assert not np.array_equal(encoder.stem(other)[-1], encoder.stem(values[:, :57])[-1])
    finally:
        lane.close()


def test_a_window_is_the_same_alone_and_beside_louder_ones(asr_model: AsrModel) -> None:
    """Stem and body: eight windows of different loudness that share a call, each bit-equal to itself alone."""
    model = asr_model
    frames = model.manifest.encoder.chunk_frames
    stems = [model.encoder.stem(chunk(model, frames, i, 1.0 + i)) for i in range(8)]
    windows = [np.concatenate([stems[i], stems[(i + 1) % 8] * (1 + 4 * (i % 2))]) for i in range(8)]
    alone = [model.encoder.body(w) for w in windows]
    together: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    before = model.encoder_lane.batches

    def one(i: int) -> None:
        together[i] = (model.encoder.stem(chunk(model, frames, i, 1.0 + i)), model.encoder.body(windows[i]).embeddings)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    with held(model.encoder_lane):
        for thread in threads:
            thread.start()
        until_waiting(model.encoder_lane, 8)
    for thread in threads:
        thread.join()
    assert model.encoder_lane.batches - before < 1 + 16  # some did share a call
    for i in range(8):
        np.testing.assert_array_equal(together[i][0], stems[i])
        np.testing.assert_array_equal(together[i][1], alone[i].embeddings)


def test_phone_frames_are_those_of_the_valid_rows_whatever_shares_the_call() -> None:
    """Three a row, one after the other, of a model without a CTC head; windows of other lengths and loudness beside it
    change no bit, nor does the padding."""
    manifest = read_asr(GOLDEN / "int8")
    spec = msgspec.structs.replace(manifest.encoder, phones=Phones(3, 8, "pronunciation.npz"))
    stem = Graph(GOLDEN / "int8" / spec.stem, threads=2, provider="cpu")
    body = Graph(GOLDEN / "body-phones.onnx", threads=2, provider="cpu")
    assert body.outputs == ("embeddings", "phones")
    lane = Lane("phones")
    try:
        encoder = AudioEncoder(spec, stem, body, lane, manifest.mel.bins)
        random = np.random.default_rng(7)
        counts = (1, 12, 13, 40, 104, 39, 7)
        windows = [
            (random.standard_normal((count, spec.stem_width)) * (1 + 4 * (i % 2))).astype(np.float32)
            for i, count in enumerate(counts)
        ]
        for window, together in zip(windows, encoder.bodies(windows), strict=True):
            count = len(window)
            alone = encoder.body(window)
            assert together.ctc is None and alone.ctc is None
            assert together.phones is not None and alone.phones is not None
            assert together.phones.shape == (3 * count, 9) and together.embeddings.shape == (count, spec.width)
            np.testing.assert_allclose(np.exp(together.phones).sum(1), 1, rtol=1e-4)
            np.testing.assert_array_equal(together.phones, alone.phones)
            np.testing.assert_array_equal(together.embeddings, alone.embeddings)
            whole = np.concatenate([window, np.ones((104 - count, spec.stem_width), np.float32)])
            mask = (np.arange(104) < count).astype(np.float32)
            embeddings, phones = body.run({"rows": whole[None], "mask": mask[None]})
            np.testing.assert_array_equal(together.embeddings, embeddings[0, :count])
            for row in range(count):
                np.testing.assert_array_equal(together.phones[3 * row : 3 * row + 3], phones[0, row])
    finally:
        lane.close()


def test_many_at_once_are_what_they_are_alone(asr_model: AsrModel) -> None:
    """Chunks and windows of different lengths, asked for in one call."""
    spec = asr_model.manifest.encoder
    chunks = [chunk(asr_model, frames, i) for i, frames in enumerate((spec.chunk_frames, 17, spec.chunk_frames, 64, 1))]
    stems = asr_model.encoder.stems(chunks)
    for alone, together in zip(map(asr_model.encoder.stem, chunks), stems, strict=True):
        np.testing.assert_array_equal(together, alone)
    windows = [np.concatenate(stems), stems[0], np.concatenate(stems[:4]), stems[2]]
    for window, together in zip(windows, asr_model.encoder.bodies(windows), strict=True):
        alone = asr_model.encoder.body(window)
        assert len(together.embeddings) == len(window)
        np.testing.assert_array_equal(together.embeddings, alone.embeddings)
        assert together.ctc is not None and alone.ctc is not None
        np.testing.assert_array_equal(together.ctc, alone.ctc)
        assert together.phones is not None and alone.phones is not None
        np.testing.assert_array_equal(together.phones, alone.phones)
