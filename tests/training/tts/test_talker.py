"""Talker and predictor: frame by frame equals all at once; they learn; the layout is the official one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.training.tts.shapes import CONFIG, random_codes, tokenizer  # noqa: E402
from training.tts.checkpoint import load_talker, save_checkpoint  # noqa: E402
from training.tts.codec import Codec  # noqa: E402
from training.tts.generate import Sampling, generate  # noqa: E402
from training.tts.prompt import codec_ids, lay_out  # noqa: E402
from training.tts.rows import Bucket, make_buckets, make_rows  # noqa: E402
from training.tts.talker import Talker  # noqa: E402
from training.tts.talker_step import TalkerStep, guide_loss, losses  # noqa: E402
from training.tts.tokenizer import text_ids  # noqa: E402

CPU = torch.device("cpu")


def small() -> Talker:
    torch.manual_seed(0)
    return Talker(CONFIG.talker, CONFIG.codec).eval()


@torch.inference_mode()
@pytest.mark.parametrize("language", [True, False])
def test_generation_is_the_training_layout_read_forwards(tmp_path: Path, language: bool) -> None:
    """Greedy codes, laid out as a training row, are what the teacher-forced model finds likeliest at every position."""
    bpe, talker = tokenizer(tmp_path), small()
    talker.codec_head.weight[talker.size :] = 0  # generation forbids control ids
    text, ids = text_ids(bpe), codec_ids(CONFIG)
    tokens = bpe.encode(" the lamp is there.").ids
    codes = list(generate(talker, tokens, "slt", text, ids, Sampling(temperature=0.0), 15, language=language))
    row = lay_out(np.array(codes, np.int16), tokens, "slt", text, ids, language=language)
    batch = Bucket([row], len(row.text), text, ids, CPU).batch(torch.tensor([0]), None)
    found = losses(talker, batch, CONFIG.talker_training, noise=False)
    assert found.hits[1:].tolist() == [1.0] * (talker.books - 1)
    assert found.hits[0] >= (len(codes)) / (len(codes) + 1) - 1e-6  # the end was not reached


def test_rows_are_learnt(tmp_path: Path) -> None:
    """A few hundred positions that follow their text are learnt by heart in a few steps."""
    rows = make_rows(random_codes(), CONFIG, tokenizer(tmp_path), held_out=False)
    talker = small().train()
    training = replace(CONFIG.talker_training, dropout=0.0, code_noise=0.0)
    buckets = make_buckets(rows, CONFIG, tokenizer(tmp_path), CPU)
    step = TalkerStep(talker, training, buckets, CPU, graphs=False)
    step.rate(5e-3)
    seen = []
    for _ in range(60):
        step.run(buckets[0])
        seen.append((step.measures[0] + step.measures[1]).item())
    assert np.mean(seen[-5:]) < 0.6 * np.mean(seen[:5])


def test_held_out_and_foreign_speakers_stay_outside(tmp_path: Path) -> None:
    codes, bpe = random_codes(), tokenizer(tmp_path)
    own = make_rows(codes, CONFIG, bpe, held_out=False, speakers={"kathleen"})
    test = make_rows(codes, CONFIG, bpe, held_out=True)
    assert len(own) == 6 and len(test) == 3


def test_the_guide_wants_the_diagonal(tmp_path: Path) -> None:
    """Attention on the text that is being spoken costs less than attention on the wrong end of it."""
    bpe = tokenizer(tmp_path)
    text, ids = text_ids(bpe), codec_ids(CONFIG)
    row = lay_out(np.zeros((20, 3), np.int16), list(range(16)), "slt", text, ids, language=False)
    size = len(row.text)
    batch = Bucket([row], size, text, ids, CPU).batch(torch.tensor([0]), 4)
    right, wrong = torch.zeros(1, size, size), torch.zeros(1, size, size)
    first, last = row.span
    for position in range(size):
        spoken = int(np.clip(row.text_at[position], first, last - 1))
        right[0, position, spoken] = wrong[0, position, last - 1 - (spoken - first)] = 1.0
    assert guide_loss(right, batch) < 0.2 < guide_loss(wrong, batch)


def test_a_checkpoint_has_the_official_layout(tmp_path: Path) -> None:
    """Files, names and ids that the official code reads; weights come back."""
    from safetensors.torch import load_file

    tokenizer(tmp_path / "tokenizer")
    talker, folder = small(), tmp_path / "checkpoint"
    save_checkpoint(CONFIG, Codec(CONFIG.codec), talker, tmp_path / "tokenizer", ("kathleen",), folder)
    config = json.loads((folder / "config.json").read_text())
    t = config["talker_config"]
    assert t["spk_id"] == {"kathleen": codec_ids(CONFIG).speakers["kathleen"]}
    assert sum(t["rope_scaling"]["mrope_section"]) == t["head_dim"] // 2
    assert len({config[f"tts_{name}_token_id"] for name in ("pad", "bos", "eos")}) == 3
    names = set(load_file(folder / "model.safetensors"))
    assert {
        "talker.model.text_embedding.weight", "talker.codec_head.weight", "talker.text_projection.linear_fc1.bias",
        "talker.model.layers.1.self_attn.q_norm.weight", "talker.code_predictor.lm_head.1.weight",
        "talker.code_predictor.model.codec_embedding.1.weight",
        "talker.code_predictor.small_to_mtp_projection.bias",
    } <= names  # fmt: skip
    speech = set(load_file(folder / "speech_tokenizer/model.safetensors"))
    assert {
        "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum", "decoder.decoder.1.block.2.act1.alpha",
        "decoder.pre_transformer.layers.0.self_attn_layer_scale.scale", "decoder.upsample.0.1.pwconv1.weight",
    } <= speech  # fmt: skip
    assert not any(name.startswith("encoder") for name in speech)
    again = load_talker(folder / "model.safetensors", CONFIG)
    assert torch.allclose(again.codec_head.weight, talker.codec_head.weight, atol=1e-3)
