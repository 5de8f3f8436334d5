"""A whole run in small: shards, planners, steps, evaluation, weights; and a second run that begins with them."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.checkpoint import load_weights
from training.asr.config import Config
from training.asr.material import split
from training.asr.optimizer import Optimizer, orthogonalise
from training.asr.run import Run, schedule
from training.asr.train import LAST, Training
from training.shards import Clip, licence_table, read_shards

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
    assert split(clips, 0) == ([], clips)


def test_the_schedule_warms_up_and_ends_low() -> None:
    assert schedule(0.0, 0, CONFIG) == 0.5 and schedule(0.2, 10, CONFIG) == 1.0
    assert schedule(1.0, 1000, CONFIG) == pytest.approx(CONFIG.optimisation.final_rate)


def test_orthogonalised_updates_have_even_singular_values() -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(1, 24, 40))[0].float())
    assert 0.5 < float(values.min()) and float(values.max()) < 1.4


def test_a_gradient_that_is_not_finite_changes_nothing_but_the_decay() -> None:
    layer = torch.nn.Linear(4, 4)
    optimizer = Optimizer(layer, CONFIG.optimisation, 0.0)
    before = layer.weight.detach().clone()
    optimizer.rate.fill_(1.0)
    optimizer.gradient.fill_(float("nan"))
    optimizer.step()
    torch.testing.assert_close(layer.weight, before)


@pytest.mark.slow
def test_a_run_saves_and_can_be_continued(tmp_path: Path) -> None:
    """By a clock that goes on by a second whenever it is looked at: as many steps on any machine."""
    train, test = shard(tmp_path / "en-train-00.tar", 12), shard(tmp_path / "en-test-00.tar", 2)
    tiny_tokenizer(tmp_path / "tokenizer")
    text = tmp_path / "text.txt"
    text.write_text("\n".join([*SENTENCES, "a ventriloquist spoke"]))

    def run(seconds: float, out: str, config: Config = CONFIG, **more: Path) -> dict[str, object]:
        given = Run(
            shards=(train,), test=(test,), text=text, tokenizer=tmp_path / "tokenizer" / "tokenizer.json",
            out=tmp_path / out, seconds=seconds, device="cpu", compile=False, processes=1, **more,
        )  # fmt: skip
        seconds_pass = itertools.count(1000.0)
        Training(config, given, lambda: next(seconds_pass)).train()
        return json.loads((tmp_path / out / "run.json").read_text())

    first = run(40, "first")
    assert first["steps"] > 2 and first["scores"][0]["wer"].keys() == {"librispeech"}
    assert load_weights(tmp_path / "first" / LAST).keys() == load_weights(tmp_path / "first").keys()
    second = run(20, "second", start=tmp_path / "first")
    assert second["started_from"] and second["steps"] > 0
    third = run(60, "third", resume=tmp_path / "first" / "state.pt")
    assert third["steps"] > first["steps"] and third["heard"] > first["heard"]
    made = tmp_path / "made"
    made.mkdir()
    said = np.zeros(30 * 16000, np.int16)
    write_shard(made, "w00_0000", said, SENTENCES[0])
    assert run(20, "no room", synthetic=made)["steps"] > 0, "music has filled the pool already"
    assert len(list(made.iterdir())) == 2


_TINY = """
name = "tiny"
[shape]
vocab = 320
conv_channels = 8
d_model = 32
encoder_layers = 2
encoder_heads = 2
encoder_ffn = 48
hidden = 32
decoder_layers = 2
heads = 2
kv_heads = 1
head_dim = 16
decoder_ffn = 48
[regularisation]
consistency_from = 1
style = 0.5
[batches]
seconds_per_step = 32
row_seconds = [4, 8]
row_share = [0.5, 0.5]
easy_steps = 0
augment_ramp = 2
planners = 1
pool_hours = 0.1
[optimisation]
warmup_steps = 2
[sources]
librispeech = 1.0
"""


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path: Path) -> None:
    """Through torchrun, as on several GPUs: the run ends in both at the same step, and the weights are those of one
    model."""
    train = shard(tmp_path / "en-train-00.tar", 12)
    tiny_tokenizer(tmp_path / "tokenizer")
    (tmp_path / "text.txt").write_text("\n".join([*SENTENCES, "a ventriloquist spoke"]))
    (tmp_path / "tiny.toml").write_text(_TINY)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "training.asr",
        "--config", tmp_path / "tiny.toml", "train", "--shards", train, "--text", tmp_path / "text.txt",
        "--tokenizer", tmp_path / "tokenizer" / "tokenizer.json", "--out", tmp_path / "out", "--seconds", "6",
        "--device", "cpu", "--no-compile", "--processes", "1", "--align-at", "0",
    ]  # fmt: skip
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    saved = json.loads((tmp_path / "out" / "run.json").read_text())
    assert saved["steps"] >= 10 and "alignment failed" not in done.stdout
    assert "weights differ" not in done.stdout and "comparison failed" not in done.stdout
    assert saved["heard"] * 3600 > saved["steps"] * 16, "the hours of both processes count"
