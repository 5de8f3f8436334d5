"""Exports of the official classes against the official code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from export import api
from export.sound import sound
from export.table import Row
from export.verify import parity
from export.verify.parity import SECONDS, Exported, compared, decode, error
from streaming.encoder import rows_of
from tests.reference.official import TINY, write_checkpoint
from tests.reference.stages import DECODER_STAGES, ENCODER_STAGES, changed

pytestmark = pytest.mark.reference


def hold(rows: Iterator[Row]) -> list[Row]:
    """All rows, every limit kept."""
    kept = list(rows)
    assert kept
    for row in kept:
        print(row)
    assert not [str(row) for row in kept if not row.passed]
    return kept


def test_log_mel(case: Any) -> None:
    """The runtime's features are the official extractor's, short clips padded as it pads them."""
    hold(parity.mel_rows(case.exported, case.reference, SECONDS))


@pytest.mark.parametrize("seconds", SECONDS)
def test_encoder(case: Any, seconds: float) -> None:
    """Stem and body, and the whole-clip graph: 1e-4 of the RMS, cosine 0.999999, at every edge of chunk and window."""
    rows = hold(parity.encoder_rows(case.exported, case.reference, (seconds,)))
    assert {row.stage.split()[0] for row in rows} == {"encoder", "clip"}


def test_encoder_from_samples(case: Any) -> None:
    """The runtime's features through the runtime's encoder against the official way from the same samples."""
    for index, seconds in enumerate((0.3, 8.01, 13.7)):
        samples = sound(seconds, index)
        padded = np.pad(samples, (0, max(8000 - len(samples), 0)))
        ours = case.exported.encode(case.exported.mel.clip(padded)).embeddings
        theirs = case.reference.encode(*case.reference.features(samples))
        hold(compared(f"{seconds:g} s", ours, theirs, 1e-3, 0.99999))


def test_a_batch_of_clips_of_different_length(case: Any) -> None:
    """The whole-clip graph masks each clip by its own valid rows."""
    spec = case.exported.manifest.encoder
    clips = [case.reference.features(sound(seconds, 5))[0][0].numpy() for seconds in (9.3, 2.5)]
    valid = [int(case.reference.features(sound(seconds, 5))[1].sum()) for seconds in (9.3, 2.5)]
    frames = max(clip.shape[1] for clip in clips)
    batch = np.stack([np.pad(clip, ((0, 0), (0, frames - clip.shape[1]))) for clip in clips])
    rows = np.array([rows_of(count, spec.chunk_frames, spec.chunk_rows) for count in valid])
    together = case.exported.clip.run({"mel": batch, "valid_rows": rows})[0]
    assert together.shape[1] == spec.chunk_rows * frames // spec.chunk_frames
    for index, clip in enumerate(clips):
        alone = case.exported.encode_clip(clip[:, : valid[index]])
        assert error(together[index, : rows[index]], alone)[0] < 1e-5


def test_prompts(case: Any) -> None:
    """With and without language and context, the official template's ids."""
    assert len(hold(parity.prompt_rows(case.exported, case.reference))) == 4


def test_greedy_decoding(case: Any) -> None:
    """64 tokens identical in float32, at least 20 of them distinct, another text for other audio."""
    rows = hold(parity.decoder_rows(case.exported, case.reference))
    assert all(row.value >= parity.DISTINCT for row in rows if row.measure == "distinct tokens")
    assert sum(row.measure.startswith("greedy") for row in rows) == 3


def test_f16_decoder(case: Any, tmp_path: Path) -> None:
    """99.5 % of teacher-forced tokens agree; where greedy decoding parts, the margin is printed."""
    model = api.run(case.checkpoint, tmp_path / "model", encoder="fp32", decoder="f16", clip=False, name=None)
    exported = Exported(model)
    try:
        hold(parity.decoder_rows(exported, case.reference))
    finally:
        exported.close()


@pytest.mark.parametrize("layout", ["original", "transformers"])
def test_forced_aligner(tmp_path: Path, layout: str) -> None:
    """The time head on the decoder's hidden state, in both layouts."""
    checkpoint = write_checkpoint(tmp_path / "checkpoint", TINY, layout=layout, seed=5, aligner=50)
    model = api.run(checkpoint, tmp_path / "model", encoder="fp32", decoder="f32", clip=False, name=None)
    table = parity.verify(model, checkpoint, seconds=(0.3, 8.01))
    print(table)
    assert table.passed
    assert any(row.measure == "same time classes" for row in table.rows)


def test_longer_chunks(long_chunks: Any) -> None:
    """Chunks of 2 s and 4 s, windows of 8 s: everything the released chunk length is held to."""
    case = long_chunks
    spec = case.exported.manifest.encoder
    assert (spec.chunk_rows, spec.window_rows) == (spec.chunk_frames // 8, 100)
    assert spec.chunk_frames in (200, 400)
    hold(parity.mel_rows(case.exported, case.reference, SECONDS))
    edges = (1.99, 2.0, 2.01, 3.99, 4.0, 4.01)
    hold(parity.encoder_rows(case.exported, case.reference, (*SECONDS, *edges)))
    test_encoder_from_samples(case)
    test_a_batch_of_clips_of_different_length(case)
    test_prompts(case)
    test_greedy_decoding(case)


def test_positions_of_longer_chunks_matter(long_chunks: Any) -> None:
    """One per cent on the positions beyond the thirteenth row breaks the limit."""
    position = dict(case_buffers(long_chunks))["audio_tower.positional_embedding.positional_embedding"][13:]
    with changed(position):
        rows = list(parity.encoder_rows(long_chunks.exported, long_chunks.reference, (7.99,)))
    assert any(not row.passed for row in rows), [str(row) for row in rows]


def case_buffers(case: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Buffers of the official model by name."""
    return case.reference.model.model.named_buffers()


@pytest.mark.parametrize("name", ENCODER_STAGES)
def test_a_changed_encoder_tensor_is_noticed(case: Any, name: str) -> None:
    """One per cent on one tensor breaks the limit."""
    tensors = dict(case.reference.model.model.named_parameters()) | dict(case.reference.model.model.named_buffers())
    with changed(tensors[name]):
        rows = list(parity.encoder_rows(case.exported, case.reference, (7.99,)))
    assert any(not row.passed for row in rows), [str(row) for row in rows]


@pytest.mark.parametrize("name", DECODER_STAGES)
def test_a_changed_decoder_tensor_is_noticed(case: Any, name: str) -> None:
    """One per cent on one tensor breaks the limit of the logits."""
    samples = sound(2.0, 10)
    features, mask = case.reference.features(samples)
    ids = case.reference.prompt(case.exported.tokenizer, samples, None, None)
    decoder = case.exported.decoder(rows=512)
    try:
        # The audio rows stay the export's own, so that only the decoder differs.
        audio = case.reference.encode(features, mask)
        with changed(dict(case.reference.model.named_parameters(remove_duplicate=False))[name]):
            generated = case.reference.generate(ids, features, mask, 16)
        placeholder = case.reference.config.audio_token_id
        decoded = decode(decoder, ids, placeholder, audio, generated, 1)
    finally:
        decoder.close()
    worst = float((np.abs(decoded.forced - generated.logits).max(1) / generated.logits.std(1)).max())
    assert worst > parity.LOGIT_ERROR
