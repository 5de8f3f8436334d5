"""A whole run in small: shards, planners, steps, evaluation, weights; and a second run that begins with them."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("torch")

import torch

from training.asr.config import Config
from training.asr.labels import split
from training.asr.model import PocketASR, shipping
from training.asr.optimizer import Optimizer, orthogonalise
from training.asr.plan import ROW, SYNTHETIC, Planner, Utterance
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.asr.step import Step
from training.asr.train import LAST, HearingRun, HearingTrainer
from training.checkpoint import WEIGHTS, load_weights, save_weights
from training.shards import RATE, Clip, licence_table, pack, read_shards

from .shapes import CONFIG, SENTENCES, shard, tiny_tokenizer, write_shard


def test_shards_are_read_and_their_licences_listed(tmp_path: Path) -> None:
    path = shard(tmp_path / "en-train-00.tar", 4)
    clips = read_shards([path], 1)
    assert [c.text for c in clips] == [s.capitalize() for s in SENTENCES[:4]]
    assert {c.source for c in clips} == {"librispeech"} and all(len(c.samples) > 16000 for c in clips)
    assert "| LibriSpeech dev | CC-BY-4.0 | 4 |" in licence_table([path])


def test_whole_speakers_are_held_out_and_always_the_same_ones() -> None:
    def clip(speaker: str, source: str, text: str) -> Clip:
        return Clip(np.zeros(1, np.int16), text, speaker, source, source)

    clips = [clip(f"speaker {i % 20}", "librispeech", "sentence") for i in range(200)]
    clips += [clip("unknown", "common_voice_v1", "so " * (i % 50)) for i in range(200)]
    held_out, kept = split(clips, 3)
    assert held_out and len(held_out) + len(kept) == 400 and split(clips[::-1], 3)[0] == held_out[::-1]
    for source, key in (("librispeech", "speaker"), ("common_voice_v1", "text")):
        sides = [{getattr(c, key) for c in side if c.source == source} for side in (held_out, kept)]
        assert sides[0] and sides[1] and not sides[0] & sides[1]


def test_orthogonalised_updates_have_even_singular_values() -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(1, 24, 40))[0].float())
    assert 0.5 < float(values.min()) and float(values.max()) < 1.4


def test_a_gradient_that_is_not_finite_changes_nothing_but_the_decay() -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer = Optimizer(layer, CONFIG.optimisation, 0.0)
    before = layer.weight.detach().clone()
    optimizer.rate(1.0)
    optimizer.gradient.fill_(float("nan"))
    optimizer.step()
    torch.testing.assert_close(layer.weight, before)


def test_a_teachers_states_are_learnt(tmp_path: Path) -> None:
    """Of a pool of tones whose states are their pitch; the head does not leave with the weights."""
    tokenizer = tiny_tokenizer(tmp_path)
    torch.manual_seed(1)
    model = PocketASR(CONFIG.shape)
    model.add_taught(2)
    with torch.no_grad():
        model.thinker.audio_tower.conv_out.weight.mul_(60)  # else positions outweigh what is heard
    pitch = torch.tensor([[0.0, 1.0], [1.0, -1.0]])
    places = torch.arange(2 * RATE)
    audio = torch.cat([(8000 * torch.sin(places * step)).short() for step in (0.1, 0.8)])
    taught = pitch.repeat_interleave(2 * RATE // ROW, 0)
    known = {"librispeech": [Utterance(i * 2 * RATE, 2 * RATE, "a letter came", True, []) for i in (0, 1)]}
    planner = Planner(CONFIG, Prompt(tokenizer), {"letter": 2}, known, 1)
    optimizer = Optimizer(model, replace(CONFIG.optimisation, adam_rate=1e-2), 0.0)
    optimizer.rate(1.0)
    step = Step(CONFIG, model, LogMel(), optimizer, audio, taught)
    far: list[float] = []
    for _ in range(40):
        far.append(float(step.gradients(planner.plan(0.5))[3]))
        step.update()
    assert sum(far[-5:]) < 0.5 * sum(far[:5])
    assert shipping(model.state_dict()).keys() == PocketASR(CONFIG.shape).state_dict().keys()


def test_a_batch_without_a_word_is_a_step_too(tmp_path: Path) -> None:
    config = replace(CONFIG, batches=replace(CONFIG.batches, empty_share=1.0))
    known = {"librispeech": [Utterance(0, RATE, "a letter came", True, [])]}
    planner = Planner(config, Prompt(tiny_tokenizer(tmp_path)), {"letter": 2}, known, 1)
    model = PocketASR(CONFIG.shape)
    optimizer = Optimizer(model, CONFIG.optimisation, 0.0)
    step = Step(config, model, LogMel(), optimizer, torch.zeros(RATE, dtype=torch.int16))
    assert step.gradients(planner.plan(0.5)).isfinite().all() and optimizer.gradient.any()


@pytest.mark.slow
def test_a_run_saves_and_can_be_continued(tmp_path: Path) -> None:
    """By a clock that goes on by a second whenever it is looked at: as many steps on any machine."""
    train = shard(tmp_path / "en-train-00.tar", 12)
    tiny_tokenizer(tmp_path / "tokenizer")
    text = tmp_path / "text.txt"
    text.write_text("\n".join([*SENTENCES, "a ventriloquist spoke"]))

    torch.manual_seed(1)
    save_weights(PocketASR(CONFIG.shape).state_dict(), tmp_path / "start" / WEIGHTS)

    def run(seconds: float, out: str, config: Config = CONFIG, start: str = "start", **more: Path) -> dict[str, Any]:
        given = HearingRun(
            shards=(train,), text=text, tokenizer=tmp_path / "tokenizer" / "tokenizer.json",
            start=tmp_path / start, out=tmp_path / out, seconds=seconds, device="cpu", **more,
        )  # fmt: skip
        seconds_pass = itertools.count(1000.0)
        trainer = HearingTrainer(config, given)
        trainer.now, trainer.report_every = lambda: next(seconds_pass), 2
        trainer.train()
        return json.loads((tmp_path / out / "run.json").read_text())

    first = run(40, "first")
    assert first["steps"] > 2 and first["scores"][0]["wer"].keys() == {"librispeech"}
    last, average = (load_weights(folder / WEIGHTS) for folder in (tmp_path / "first" / LAST, tmp_path / "first"))
    assert last.keys() == average.keys()
    assert run(20, "second", start="first")["steps"] > 0
    third = run(60, "first")
    assert third["steps"] > first["steps"] and third["heard"] > first["heard"]
    assert third["history"][: len(first["history"])] == first["history"] and len(third["scores"]) == 2, (
        "one run goes on"
    )
    made = tmp_path / "made"
    made.mkdir()
    write_shard(made, "w00_0000", np.zeros(5 * 16000, np.int16), SENTENCES[0])
    config = replace(CONFIG, batches=replace(CONFIG.batches, pool_hours=0.9))
    with_generated = run(20, "generated", config, synthetic=made)
    assert with_generated["steps"] > 0 and with_generated["hours"][SYNTHETIC] == pytest.approx(5 / 3600)


def test_a_folder_becomes_a_shard_without_texts(tmp_path: Path) -> None:
    """Those that a list names stay out."""
    clips = tmp_path / "clips"
    clips.mkdir()
    for name in "abc":
        soundfile.write(clips / f"{name}.wav", np.zeros(RATE), RATE)
    (tmp_path / "known.tsv").write_text("client\tpath\nx\tb.wav\ttext\n")
    pack(
        clips, corpus="Common Voice unlabelled", licence="CC0", out=tmp_path / "en-train-04.tar", kind="wav",
        without=tmp_path / "known.tsv",
    )  # fmt: skip
    found = read_shards([tmp_path / "en-train-04.tar"], 1)
    assert [(c.file, c.text, c.source, len(c.samples)) for c in found] == [
        (f"{name}.wav", "", "unlabelled", RATE) for name in "ac"
    ]
