"""Talker and predictor: a frame at a time equals all at once, they learn, and the layout is the official one."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, by_steps, layout, random_codes, rows, tokenizer
from training.ranks import Ranks
from training.speech.sounds import FILES
from training.tts.checkpoint import load_talker, mix, save_checkpoint, save_talker
from training.tts.codec import Codec
from training.tts.prompt import codec_ids, lay_out
from training.tts.rows import Batch, Bucket
from training.tts.talker import Talker
from training.tts.talker_run import TalkerRun, TalkerTrainer
from training.tts.talker_step import TalkerStep, embed, guide_loss, losses, with_own

CPU = torch.device("cpu")


def small() -> Talker:
    torch.manual_seed(0)
    return Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker).eval()


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_rows_are_learnt(tmp_path: Path, own: float) -> None:
    """A few hundred positions that follow their text are learnt by heart in a few steps; so they are by a model that
    looks back on its own codes.
    """
    made = layout(tmp_path)
    talker = small().train()
    training = replace(CONFIG.talker_training, dropout=0.0, code_noise=0.0)
    buckets = made.buckets(rows(made, random_codes(), held_out=False))
    step = TalkerStep(talker, training, Ranks("cpu"))
    step.begin(buckets)
    step.rate(5e-3)
    step.own_share.fill_(own)
    seen = []
    for _ in range(60):
        step.run(buckets[0])
        seen.append((step.measures[0] + step.measures[1]).item())
    assert np.mean(seen[-5:]) < 0.6 * np.mean(seen[:5])


def drawn(folder: Path) -> Batch:
    made = layout(folder)
    return made.buckets(rows(made, random_codes(), held_out=False))[0].batch(torch.arange(4), None)


@torch.inference_mode()
def test_the_predictors_own_codes_are_what_it_finds_likeliest_book_by_book() -> None:
    talker = small()
    hidden, first = torch.randn(9, CONFIG.talker.hidden_size), torch.arange(9)
    own = talker.likeliest(hidden, first)
    again = talker.predict(hidden, torch.cat([first[:, None], own], 1)).argmax(-1)
    assert torch.equal(own, again) and len(own.unique()) > 1


def test_a_share_of_the_frames_holds_the_models_own_codes(tmp_path: Path) -> None:
    """Only frames of the first rows change, and all of them at a share of 1. Books 1 and up are then what the predictor
    says."""
    talker, batch = small().train(), drawn(tmp_path)
    given = batch.codes
    made = with_own(talker, batch, given, None, torch.tensor([1.0, 0.5]), 0.0)
    assert talker.training
    differs = (made != given).any(-1)
    assert not differs[2:].any() and not differs[~batch.frame].any() and torch.equal(made[..., 0], given[..., 0])
    share = differs[:2].sum(1) / batch.frame[:2].sum(1)
    assert share[0] > 0.9 and 0.2 < share[1] < 0.8
    hidden = talker.eval().model(embed(talker, batch, given, None))
    at = batch.frame[0, 1:].nonzero()[:, 0]
    assert torch.equal(made[0, at + 1, 1:], talker.likeliest(hidden[0, at], given[0, at + 1, 0]))
    with_first = with_own(talker, batch, given, None, torch.ones(4), 1.0)
    guess = talker.codec_head(hidden)[0, at, : talker.size].argmax(-1)
    assert torch.equal(with_first[0, at + 1, 0], guess) and (guess != given[0, at + 1, 0]).any()


def test_own_codes_are_looked_back_on_and_the_recorded_ones_asked_for(tmp_path: Path) -> None:
    talker, batch = small(), drawn(tmp_path)
    t = CONFIG.talker_training
    given = batch.codes
    made = with_own(talker, batch, given, None, torch.ones(4), 0.0)
    plain, none = losses(talker, batch, t, noise=False), losses(talker, batch, t, noise=False, own=torch.zeros(4))
    fed = losses(talker, batch, t, noise=False, own=torch.ones(4))
    assert torch.allclose(plain.first, none.first) and torch.allclose(plain.rest, none.rest)
    hidden = talker.model(embed(talker, batch, made, None))
    first = torch.nn.functional.cross_entropy(talker.codec_head(hidden).flatten(0, 1), batch.label.flatten())
    assert torch.allclose(fed.first, first) and abs(fed.first - plain.first) > 1e-4
    target = given[:, 1:].flatten(0, 1)[batch.chosen]
    logits = talker.predict(hidden[:, :-1].flatten(0, 1)[batch.chosen], target).flatten(0, 1)
    assert torch.allclose(fed.rest, torch.nn.functional.cross_entropy(logits, target[:, 1:].flatten()))


def test_training_looks_back_on_own_codes(tmp_path: Path) -> None:
    """The step's own share reaches the input: without dropout and noise it alone can change the losses."""
    made = layout(tmp_path)
    training = replace(CONFIG.talker_training, dropout=0.0, code_noise=0.0, own_rows=1.0)
    step = TalkerStep(small().train(), training, Ranks("cpu"))
    [bucket] = made.buckets(rows(made, random_codes(), held_out=False))
    step.begin([bucket])
    found: list[float] = []
    for own in (0.0, 1.0):
        step.own_share.fill_(own)
        step.rate(0.0)
        torch.manual_seed(3)  # The same rows are drawn with this seed.
        step.run(bucket)
        found.append(step.measures[0].item())
    assert abs(found[0] - found[1]) > 1e-5


def given(folder: Path, steps: int) -> TalkerRun:
    return TalkerRun(
        codes=(folder / "a.npz",), tokenizer=folder / "tokenizer.json", out=folder / "out", seconds=steps, device="cpu"
    )  # fmt: skip


def test_a_run_is_scored_on_recorded_and_on_own_codes(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    random_codes().save(tmp_path / "a.npz")
    by_steps(TalkerTrainer(CONFIG, given(tmp_path, 6))).train()
    about = json.loads((tmp_path / "out/talker.json").read_text())
    assert (
        about["steps"] == 6 and about["history"] and {"ada", "ada on own codes"} <= set(about["scores"][-1]["scores"])
    )


def test_held_out_and_foreign_speakers_stay_outside(tmp_path: Path) -> None:
    codes, made = random_codes(), layout(tmp_path)
    assert [len(rows(made, codes, held_out=held_out)) for held_out in (False, True)] == [9, 3]
    codes.utterances[1] = replace(codes.utterances[1], speaker="carl")
    assert len(rows(made, codes, held_out=False)) == 8


def test_a_text_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    codes = random_codes()
    codes.utterances[3] = replace(codes.utterances[3], text="")
    assert len(rows(layout(tmp_path), codes, held_out=False)) == 8


def test_the_guide_wants_the_diagonal(tmp_path: Path) -> None:
    """Attention on the text that is being spoken costs less than attention on the wrong end of it."""
    made = layout(tmp_path)
    row = lay_out(np.zeros((20, 3), np.int16), list(range(16)), "ada", made.text, made.codec, language=False)
    size = len(row.text)
    batch = Bucket(made, [row], size).batch(torch.tensor([0]), 4)
    right, wrong = torch.zeros(1, size, size), torch.zeros(1, size, size)
    first, last = row.begin, row.begin + row.tokens
    for position in range(size):
        spoken = int(np.clip(batch.text_at[0, position].item(), first, last - 1))
        right[0, position, spoken] = wrong[0, position, last - 1 - (spoken - first)] = 1.0
    assert guide_loss(right, batch) < 0.2 < guide_loss(wrong, batch)


def test_a_mixture_has_its_share_of_each_weight() -> None:
    first, second = small(), small()
    with torch.no_grad():
        for ones, fives in zip(first.parameters(), second.parameters(), strict=True):
            ones.fill_(1.0)
            fives.fill_(5.0)
    mix(first, second, 0.25)
    assert {float(value) for p in first.parameters() for value in p.unique()} == {2.0}


def test_a_checkpoint_has_the_official_layout(tmp_path: Path) -> None:
    """The official code can read the files, names and ids, and the weights come back."""
    from safetensors.torch import load_file

    tokenizer(tmp_path / "tokenizer")
    talker, folder = small(), tmp_path / "checkpoint"
    sounds, files = tmp_path / "sounds", msgspec.structs.asdict(FILES)
    sounds.mkdir()
    for name in files.values():
        (sounds / name).write_text(name)
    save_checkpoint(CONFIG, Codec(CONFIG.codec), talker, tmp_path / "tokenizer", ("ben",), folder, sounds)
    config = json.loads((folder / "config.json").read_text())
    named = config["hearsay"]["text"]["sounds"]
    assert named == files
    assert all((folder / name).read_text() == name for name in named.values())
    t = config["talker_config"]
    assert t["spk_id"] == {"ben": codec_ids(CONFIG).speakers["ben"]}
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


def test_a_run_that_begins_from_a_talker_looks_back_on_its_own_codes_at_once(tmp_path: Path) -> None:
    """The text of a run that begins from weights may be another one, so its attention is led to it anew."""
    tokenizer(tmp_path)
    random_codes().save(tmp_path / "a.npz")
    save_talker(small(), tmp_path / "start")
    trainer = by_steps(TalkerTrainer(CONFIG, replace(given(tmp_path, 2), start=tmp_path / "start")))
    for mine, theirs in zip(trainer.talker.parameters(), small().parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=2e-3)
    trainer.step(0.0)
    assert trainer.steps.guide_weight == 1 and trainer.steps.own_share == 1
    trainer.count = CONFIG.talker_training.guide_steps
    trainer.step(0.0)
    assert trainer.steps.guide_weight == 0
    assert trainer.talker.training and trainer.talker.model.layers[0].drop.p == CONFIG.talker_training.dropout > 0


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    """Steps, seconds and weights of the run before count, and they lie in files that can be carried."""
    tokenizer(tmp_path)
    random_codes().save(tmp_path / "a.npz")
    first = by_steps(TalkerTrainer(CONFIG, given(tmp_path, 3)))
    first.train()
    (tmp_path / "out/state").rename(tmp_path / "carried")
    on = by_steps(TalkerTrainer(CONFIG, replace(given(tmp_path, 5), state=tmp_path / "carried")))
    assert on.count == 3
    for mine, theirs in zip(on.talker.parameters(), first.talker.parameters(), strict=True):
        assert torch.equal(mine, theirs.half().float())
    moments = zip(*(run.steps.learners[0].kept().values() for run in (on, first)), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in moments)
    on.train()
    assert json.loads((tmp_path / "out/talker.json").read_text())["steps"] == 5
