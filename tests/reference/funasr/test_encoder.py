"""The exported encoder against the official classes: every length, any container, every stage, every precision."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from engines import manifest as manifests
from engines.onnx import Graph
from export import api
from export.sound import sound
from export.trace import rules
from export.verify.parity import error
from tests.reference.stages import changed

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]

LIMIT, COSINE = 1e-5, 0.999999
"""Largest error over the RMS; least cosine of a row."""
SECONDS = (0.03, 0.1, 0.3, 0.97, 1.0, 2.0, 4.99, 5.0, 9.7, 16.03, 24.0, 30.0)
CONTAINERS = (5.0, 30.0, 60.0)
STAGES = (
    "audio_encoder.encoders0.0.norm1.weight", "audio_encoder.encoders0.0.self_attn.linear_q_k_v.weight",
    "audio_encoder.encoders0.0.self_attn.fsmn_block.weight", "audio_encoder.encoders.0.self_attn.linear_q_k_v.bias",
    "audio_encoder.encoders.0.self_attn.linear_out.weight", "audio_encoder.encoders.0.self_attn.fsmn_block.weight",
    "audio_encoder.encoders.0.norm2.bias", "audio_encoder.encoders.0.feed_forward.w_1.weight",
    "audio_encoder.encoders.0.feed_forward.w_2.weight", "audio_encoder.after_norm.weight",
    "audio_encoder.tp_encoders.0.self_attn.linear_q_k_v.weight", "audio_encoder.tp_norm.weight",
    "audio_adaptor.linear1.weight", "audio_adaptor.linear2.weight", "audio_adaptor.linear2.bias",
    "audio_adaptor.blocks.0.self_attn.linear_q.weight", "audio_adaptor.blocks.0.self_attn.linear_k.weight",
    "audio_adaptor.blocks.0.self_attn.linear_v.weight", "audio_adaptor.blocks.1.self_attn.linear_out.weight",
    "audio_adaptor.blocks.1.norm1.weight", "audio_adaptor.blocks.1.norm2.weight",
    "audio_adaptor.blocks.0.feed_forward.w_1.weight", "audio_adaptor.blocks.1.feed_forward.w_2.weight",
)  # fmt: skip
HEAD_STAGES = ("ctc_decoder.linear1.weight", "ctc_decoder.blocks.0.self_attn.linear_v.weight", "ctc.ctc_lo.weight")


def encoded(graph: Graph, rows: Floats, container: int | None = None) -> list[Floats]:
    """The graph's outputs of a clip's ``rows`` [T, inputs], in a container of so many rows with noise behind them."""
    noise = np.random.default_rng(7).standard_normal((max(container or 0, len(rows)), rows.shape[1]), np.float32)
    noise[: len(rows)] = rows
    found = graph.run({"rows": noise[None], "valid_rows": np.array([len(rows)])})
    return [each[0, : len(rows)] for each in found]


def features(case: Any, seconds: float, seed: int = 1) -> Floats:
    """Official rows of a clip."""
    return case.official.features(sound(seconds, seed))[0].numpy()


@pytest.mark.parametrize("seconds", SECONDS)
def test_every_length(case: Any, seconds: float) -> None:
    """Embeddings, and the CTC head's log-probabilities."""
    rows = case.official.features(sound(seconds, 1))
    theirs, ctc = case.official.encode(rows)
    ours = encoded(case.graph, rows[0].numpy())
    worst, cosine = error(ours[0], theirs)
    assert worst <= LIMIT, worst
    assert cosine >= COSINE, cosine
    assert (ctc is not None) == (len(ours) == 2) == (case.manifest.fun_asr.ctc is not None)
    if ctc is not None:
        assert np.abs(ours[1] - ctc).max() <= 5e-5


def test_the_same_clip_in_any_container(case: Any) -> None:
    """5 s in 5, 30 and 60 s, whatever lies behind it: the errors are taken against the official class on 5 s alone."""
    rows = case.official.features(sound(5.0, 3))
    theirs, _ = case.official.encode(rows)
    frame = case.manifest.mel.hop_length * case.manifest.encoder.chunk_frames / case.manifest.mel.sample_rate
    found = [encoded(case.graph, rows[0].numpy(), round(seconds / frame))[0] for seconds in CONTAINERS]
    for ours in found:
        worst, cosine = error(ours, theirs)
        assert np.abs(ours - found[0]).max() <= 1e-5, np.abs(ours - found[0]).max()
        assert worst <= LIMIT, worst
        assert cosine >= COSINE


def test_what_lies_behind_a_clip_is_silenced(case: Any) -> None:
    """The rows beyond the valid ones are zeros."""
    rows = features(case, 1.0)
    found = case.graph.run({"rows": np.pad(rows, ((0, 9), (0, 0)), constant_values=5.0)[None],
                            "valid_rows": np.array([len(rows)])})  # fmt: skip
    assert not found[0][0, len(rows) :].any()


def test_clips_of_different_length_share_a_call(case: Any) -> None:
    """Each is masked by its own valid rows."""
    clips = [features(case, seconds) for seconds in (3.1, 0.4, 1.7)]
    longest = max(map(len, clips))
    batch = np.stack([np.pad(clip, ((0, longest - len(clip)), (0, 0))) for clip in clips])
    found = case.graph.run({"rows": batch, "valid_rows": np.array([len(clip) for clip in clips])})[0]
    for clip, together in zip(clips, found, strict=True):
        assert error(together[: len(clip)], encoded(case.graph, clip)[0])[0] <= LIMIT


@pytest.mark.parametrize("name", STAGES)
def test_a_changed_tensor_is_noticed(tiny: Any, name: str) -> None:
    """One per cent on one tensor of any stage breaks the limit."""
    rows = tiny.official.features(sound(5.0, 3))
    with changed(dict(tiny.official.model.named_parameters())[name]):
        theirs, _ = tiny.official.encode(rows)
    worst, cosine = error(encoded(tiny.graph, rows[0].numpy())[0], theirs)
    assert worst > 10 * LIMIT, worst
    assert worst > 1e-4 or cosine < COSINE


@pytest.mark.parametrize("name", HEAD_STAGES)
def test_a_changed_tensor_of_the_head_is_noticed(tiny: Any, name: str) -> None:
    """The CTC head's too."""
    rows = tiny.official.features(sound(5.0, 3))
    with changed(dict(tiny.official.model.named_parameters())[name]):
        _, theirs = tiny.official.encode(rows)
    assert np.abs(encoded(tiny.graph, rows[0].numpy())[1] - theirs).max() > 5e-4


def test_other_positions_are_noticed(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions that count from 0, not 1."""
    rows = tiny.official.features(sound(5.0, 3))
    embed = tiny.official.model.audio_encoder.embed
    encode = embed.encode
    monkeypatch.setattr(embed, "encode", lambda positions, *rest: encode(positions - 1, *rest))
    assert error(encoded(tiny.graph, rows[0].numpy())[0], tiny.official.encode(rows)[0])[0] > 10 * LIMIT


@pytest.mark.parametrize(("precision", "limit", "cosine"), [("int8", 0.35, 0.99), ("fp16", 0.05, 0.9998)])
def test_other_precisions(tiny: Any, tmp_path: Path, precision: str, limit: float, cosine: float) -> None:
    """Near the exact rows; the same bits in any container and beside a clip that is far louder."""
    model = api.run(tiny.checkpoint, tmp_path / "model", encoder=precision, decoder="q8_0", clip=False, name=None)
    graph = Graph(model / manifests.read_asr(model).encoder.body, threads=2, provider="cpu")
    rows = tiny.official.features(sound(5.0, 3))
    ours = encoded(graph, rows[0].numpy())[0]
    worst, least = error(ours, tiny.official.encode(rows)[0])
    print(precision, worst, least)
    assert worst <= limit
    assert least >= cosine
    short = rows[0].numpy()
    pair = np.stack([short, 5 * short])
    beside = graph.run({"rows": pair, "valid_rows": np.array([len(short)] * 2)})[0][0]
    assert np.array_equal(beside, ours)
    older_runtime(model)


def test_rules_hold(case: Any) -> None:
    """The graph as it lies on disk."""
    assert not rules.violations(onnx.load(case.model / case.manifest.encoder.body))
    older_runtime(case.model)


def older_runtime(model: Path) -> None:
    """Load and run the graph with onnxruntime 1.24.4, where that is at hand."""
    if python := os.environ.get("HEARSAY_ORT124"):
        script = Path(__file__).parent.parent / "ort124.py"
        done = subprocess.run([python, str(script), str(model)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
