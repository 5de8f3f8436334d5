"""The encoder's two graphs: they give as many rows as they should, and no window changes another."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lane import Lane
from engines.manifest import read_asr
from engines.onnx import Graph
from streaming.encoder import AudioEncoder, rows_of
from streaming.model import AsrModel
from tests.golden_models import GOLDEN, longer_chunks
from tests.lanes import queue


@given(st.integers(0, 5000), st.sampled_from([(100, 13), (200, 25), (400, 50), (60, 8)]))
def test_rows_are_counted_as_three_convolutions_count_them(frames: int, spec: tuple[int, int]) -> None:
    """Each convolution halves a chunk's length and rounds up, so 100 frames give 13 rows."""

    def convolved(length: int) -> int:
        for _ in range(3):
            length = (length + 1) // 2
        return length

    chunk_frames, chunk_rows = spec
    whole, rest = divmod(frames, chunk_frames)
    assert rows_of(frames, chunk_frames, chunk_rows) == whole * convolved(chunk_frames) + convolved(rest)
    assert convolved(chunk_frames) == chunk_rows


def chunk(model: AsrModel, frames: int, seed: int, scale: float = 1.0) -> np.ndarray:
    """Normalised mel values in their usual range."""
    values = np.random.default_rng(seed).standard_normal((model.manifest.mel.bins, frames)).astype(np.float32)
    return np.clip(values * 0.4 * scale, -0.6, 1.4)


def test_an_unfinished_chunk_gives_the_rows_of_its_frames(asr_model: AsrModel) -> None:
    """An unfinished chunk is padded with zeros, and only the rows of its own frames come out."""
    spec = asr_model.manifest.encoder
    for frames in (1, 8, 9, 57, 99, spec.chunk_frames):
        expected = rows_of(frames, spec.chunk_frames, spec.chunk_rows)
        assert (
            len(asr_model.engine.lane.run(asr_model.engine.encoder.stems([chunk(asr_model, frames, 1)]))[0]) == expected
        )


@pytest.mark.parametrize("frames", [100, 200, 400])
def test_a_cut_chunk_gives_the_rows_of_the_padded_one(frames: int, tmp_path: Path) -> None:
    """At every length a chunk that is not padded has the same bits as one that is, since no row depends on the
    padding."""
    directory = GOLDEN / "int8" if frames == 100 else longer_chunks(tmp_path, frames)
    manifest = read_asr(directory)
    spec = manifest.encoder
    stem, body = (Graph(directory / name, threads=2, provider="cpu") for name in (spec.stem, spec.body))
    assert stem.is_dynamic("mel", 2)
    lane = Lane("cut")
    try:
        encoder = AudioEncoder(spec, stem, body, manifest.mel.bins)
        values = np.random.default_rng(5).uniform(-0.6, 1.4, (manifest.mel.bins, frames)).astype(np.float32)
        for length in range(1, frames + 1):
            padded = np.pad(values[:, :length], ((0, 0), (0, frames - length)))
            whole = stem.run({"mel": padded[None]})[0][0][: rows_of(length, frames, spec.chunk_rows)]
            np.testing.assert_array_equal(lane.run(encoder.stems([values[:, :length]]))[0], whole)
        # The frames are seen: the last of a cut chunk matters to its last row.
        other = values[:, :57].copy()
        other[:, 56] += 1
        assert not np.array_equal(
            lane.run(encoder.stems([other]))[0][-1], lane.run(encoder.stems([values[:, :57]]))[0][-1]
        )
    finally:
        lane.close()


def test_sessions_do_not_wait_for_each_others_windows_on_a_cpu(asr_model: AsrModel) -> None:
    """On a CPU windows that wait together are run one by one, as a batch is no faster and takes long. Each has the same
    bits as alone."""
    encoder, lane = asr_model.engine.encoder, asr_model.engine.lane
    frames = asr_model.manifest.encoder.chunk_frames
    chunks = [chunk(asr_model, frames, i, 1.0 + i) for i in range(4)]
    alone = [asr_model.engine.lane.run(encoder.stems([each]))[0] for each in chunks]
    together: dict[int, np.ndarray] = {}
    before = lane.jobs - lane.batches
    with queue(lane) as add:
        for i in range(4):
            add(lambda i=i: together.update({i: asr_model.engine.lane.run(encoder.stems([chunks[i]]))[0]}))
    assert lane.jobs - lane.batches == before
    for i in range(4):
        np.testing.assert_array_equal(together[i], alone[i])


def test_a_window_is_the_same_alone_and_beside_louder_ones(asr_model: AsrModel) -> None:
    """In a call of windows of different loudness, as other providers get them, each has the same bits as alone, padded
    or not."""
    directory, spec = asr_model.directory, asr_model.manifest.encoder
    stem, body = (Graph(directory / name, threads=2, provider="cpu") for name in (spec.stem, spec.body))
    chunks = np.stack([chunk(asr_model, spec.chunk_frames, i, 1.0 + i) for i in range(8)])
    rows = stem.run({"mel": chunks})[0]
    for i in range(8):
        np.testing.assert_array_equal(rows[i], stem.run({"mel": chunks[i : i + 1]})[0][0])
    windows = np.stack([np.concatenate([rows[i], rows[(i + 1) % 8] * (1 + 4 * (i % 2))]) for i in range(8)])
    counts = [windows.shape[1] - 3 * i for i in range(8)]
    mask = np.stack([(np.arange(windows.shape[1]) < count).astype(np.float32) for count in counts])
    together = body.run({"rows": windows, "mask": mask}, ("embeddings", "ctc"))
    for i, count in enumerate(counts):
        alone = asr_model.engine.lane.run(asr_model.engine.encoder.body(windows[i, :count]))
        assert alone.ctc is not None
        np.testing.assert_array_equal(together[0][i, :count], alone.embeddings)
        np.testing.assert_array_equal(together[1][i, :count], alone.ctc)


def test_many_at_once_are_what_they_are_alone(asr_model: AsrModel) -> None:
    """Chunks of different lengths that are asked for in one call come out as when they are asked for one by one."""
    spec = asr_model.manifest.encoder
    chunks = [chunk(asr_model, frames, i) for i, frames in enumerate((spec.chunk_frames, 17, spec.chunk_frames, 64, 1))]
    encoder = asr_model.engine.encoder
    for each, together in zip(chunks, asr_model.engine.lane.run(encoder.stems(chunks)), strict=True):
        np.testing.assert_array_equal(together, asr_model.engine.lane.run(encoder.stems([each]))[0])


@pytest.mark.parametrize("graph", ["stem", "body"])
def test_products_of_bytes_become_single_nodes(asr_directory: Path, tmp_path: Path, graph: str) -> None:
    """ONNX Runtime finds each product with its scale, and each GELU, in the form that it fuses as it loads. Nothing
    else would tell that it no longer does, but that hearing is slower."""
    ort: Any = onnxruntime  # It has no types.
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3  # A warning says that such a file is for this machine alone.
    session = ort.InferenceSession(str(asr_directory / f"{graph}.onnx"), options, providers=["CPUExecutionProvider"])
    written = (tmp_path / "optimized.onnx").read_bytes()

    def count(operator: bytes) -> int:
        """How many nodes are of that operator: its name follows the field's number and its length."""
        return written.count(b'"' + bytes([len(operator)]) + operator)

    assert count(b"MatMulIntegerToFloat") and not count(b"MatMulInteger")
    assert count(b"Gelu") + count(b"BiasGelu") and not count(b"Erf")
    assert "int8/one" not in [each.name for each in session.get_inputs()]
