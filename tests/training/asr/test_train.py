"""A whole run in small, with shards, planners, steps, evaluation and states. Cut in three it is the same run."""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("torch")

import torch
from tokenizers import Tokenizer

from training.asr.augment import paces, read_at
from training.asr.evaluate import distance
from training.asr.labels import split
from training.asr.model import PocketASR, shipping
from training.asr.optimizer import Optimizer, orthogonalise
from training.asr.plan import SYNTHETIC, Plan, Planner, Utterance
from training.asr.pool import assemble
from training.asr.prompt import Prompt
from training.asr.rehearse import rehearse
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.asr.teacher import WhisperEncoder, audible, states, teachers_mel
from training.asr.train import HearingRun, HearingTrainer
from training.parts import load_parts, save_parts
from training.shards import RATE, Clip, licence_table, pack, read_shards

from .shapes import CONFIG, SENTENCES, script, shard, start, teacher, teacher_weights, tiny_tokenizer, write_shard


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
    clips += [replace(clip("", "unlabelled", ""), file=str(i)) for i in range(30)]
    held_out, kept = split(clips, 3, 2)
    assert held_out and len(held_out) + len(kept) == 430 and split(clips[::-1], 3, 2)[0] == held_out[::-1]
    assert {c.source for c in held_out} == {"librispeech", "common_voice_v1", "unlabelled"}
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


def test_a_state_is_small_and_comes_back() -> None:
    """The state without the weights is small. It comes back into tensors that captured steps know."""
    torch.manual_seed(1)
    model = PocketASR(CONFIG.shape)
    first, second = (Optimizer(model, CONFIG.optimisation, 0.1) for _ in range(2))
    for _ in range(3):
        first.rate(1.0)
        first.gradient.normal_()
        first.step()
    kept = first.kept()
    places = [p.data_ptr() for p in second._momenta.values()]
    second.take(kept)
    assert [p.data_ptr() for p in second._momenta.values()] == places
    again = second.kept()
    assert all(torch.equal(again[name], value) for name, value in kept.items())
    matrices = sum(p.numel() for stack in first._stacks.values() for p in stack)
    assert sum(v.nbytes for n, v in kept.items() if n.startswith("muon") and "scale" not in n) == matrices
    for stack, momentum in first._momenta.items():
        assert float((second._momenta[stack] - momentum).abs().max()) <= float(momentum.abs().max()) / 250


def test_a_teachers_states_are_learnt(tmp_path: Path) -> None:
    """It is asked about tones, whoever's they are. The head that says its states does not leave with the weights."""
    tokenizer = tiny_tokenizer(tmp_path)
    torch.manual_seed(1)
    model = PocketASR(CONFIG.shape)
    teacher = WhisperEncoder(teacher_weights())
    model.add_taught(32, 2)
    with torch.no_grad():
        # Otherwise positions would outweigh what is heard.
        model.thinker.audio_tower.conv_out.weight.mul_(60)
    places = torch.arange(2 * RATE)
    audio = torch.cat([(8000 * torch.sin(places * step)).short() for step in (0.1, 0.8)])
    known = {"librispeech": [Utterance(i * 2 * RATE, 2 * RATE, "a letter", True, []) for i in (0, 1)]}
    planner = Planner(CONFIG, Prompt(tokenizer), {"letter": 2}, known, 1)
    optimizer = Optimizer(model, replace(CONFIG.optimisation, adam_rate=1e-2), 0.0)
    optimizer.rate(1.0)
    step = Step(CONFIG, model, LogMel(), optimizer, audio, teacher)
    found: list[list[float]] = []
    for number in range(40):
        found.append(step.gradients(planner.plan(number)).tolist())
        step.update()
    far, off = ([row[i] for row in found] for i in (3, 4))
    assert sum(far[-5:]) < 0.5 * sum(far[:5]) and sum(off[-5:]) < 0.5 * sum(off[:5])
    assert shipping(model.state_dict()).keys() == PocketASR(CONFIG.shape).state_dict().keys()


def test_the_teacher_hears_what_the_student_hears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears each row once, in the student's windows and at its pace, and nothing where the row has ended."""
    config = replace(CONFIG, batches=replace(CONFIG.batches, row_seconds=(16,), row_share=(1.0,)))
    known = {"librispeech": [Utterance(0, 3 * RATE, "a letter came", True, [])]}
    planner = Planner(config, Prompt(tiny_tokenizer(tmp_path)), {"letter": 2}, known, 1)
    model, teacher = PocketASR(CONFIG.shape), WhisperEncoder(teacher_weights())
    model.add_taught(32, 2)
    heard: list[torch.Tensor] = []
    places: list[torch.Tensor] = []
    teacher.register_forward_pre_hook(lambda _, given: heard.append(given[0]))

    def drawn(frames: torch.Tensor, width: int, strength: torch.Tensor) -> torch.Tensor:
        places.append(paces(frames, width, strength))
        return places[-1]

    monkeypatch.setattr("training.asr.step.paces", drawn)
    audio = torch.from_numpy(np.random.default_rng(1).normal(0, 3000, 3 * RATE).astype(np.int16))
    step = Step(config, model, LogMel(), Optimizer(model, config.optimisation, 0.0), audio, teacher)
    plan = planner.plan(1)
    step.gradients(plan)
    rows, windows = len(plan.length), 2
    assert heard[0].shape == (rows * windows, 80, 800)
    mel = read_at(teachers_mel(80, torch.device("cpu"))(assemble(audio, plan)), places[0])
    for row, frames in enumerate((plan.length // 160).tolist()):
        own = mel[row].clone()
        own[:, frames:] = -1.5
        expected = audible(own.view(80, 2, 800).transpose(0, 1))
        torch.testing.assert_close(heard[0][row * windows : (row + 1) * windows], expected)


def test_the_distance_of_clips_is_that_of_each_alone_by_its_windows() -> None:
    model, teacher, cpu = PocketASR(CONFIG.shape), WhisperEncoder(teacher_weights()), torch.device("cpu")
    model.add_taught(32, 2)
    rng = np.random.default_rng(1)
    clips = [Clip(rng.normal(0, 3000, s * RATE).astype(np.int16), "", "", "", "") for s in (3, 10)]

    def far(some: list[Clip]) -> float:
        return distance(model, LogMel(), teacher, {"a": some}, cpu)["states"]["a"]

    assert far(clips) == pytest.approx((3 * far(clips[:1]) + 10 * far(clips[1:])) / 13, abs=1e-3)
    torch.nn.init.zeros_(model.taught[1].weight)
    samples = torch.from_numpy(clips[1].samples)[None].float() / 32768
    padded = torch.nn.functional.pad(samples, (0, 6 * RATE))
    _, late = states(teacher, teachers_mel(80, cpu)(padded), torch.tensor([1000]), 800)
    expected = torch.nn.functional.smooth_l1_loss(torch.zeros_like(late[:, :125]), late[:, :125])
    assert far(clips[1:]) == pytest.approx(float(expected), abs=1e-3)


def test_only_the_layers_that_read_the_states_have_their_dropout() -> None:
    model = PocketASR(replace(CONFIG.shape, encoder_layers=3), replace(CONFIG.regularisation, reading_dropout=0.3))
    model.add_taught(32, 2)
    tower, reader = model.thinker.audio_tower, model.thinker.model
    assert [layer.drop.p for layer in tower.layers] == [0.05, 0.05, 0.3]
    assert [layer.self_attn.dropout for layer in (*tower.layers, *reader.layers)] == [0.05, 0.05, 0.3, 0.3, 0.3]
    assert [layer.drop.p for layer in reader.layers] == [0.3, 0.3]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_dropout_of_compiled_layers_is_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be a tensor on the host, which is read when a step is captured and never again."""
    model = PocketASR(replace(CONFIG.shape, encoder_layers=3))
    model.add_taught(32, 2)
    given: list[list[Any]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(inputs)
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    with torch._dynamo.config.patch(specialize_float=False, recompile_limit=8, suppress_errors=False):
        compile_layers(model)
        for seconds in (2, 8):
            model.train().hear(torch.zeros(2, 128, seconds * 100), torch.tensor([seconds * 100, 150]))
    assert len(given) >= 3
    assert not any(isinstance(x, torch.Tensor) and x.dtype == torch.float64 for inputs in given for x in inputs)


def test_a_rehearsal_makes_a_step_of_each_shape_in_the_order_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has other utterances, and may go on from a state."""
    weights = start(tmp_path / "start")
    (tmp_path / "start" / "model.safetensors").unlink()
    save_parts(tmp_path / "state", {}, {"steps": 7})
    known = {"librispeech": [Utterance(0, 2 * RATE, "a letter came to him", True, [(9000, 2)])]}
    planner = Planner(CONFIG, Prompt(Tokenizer.from_file(str(weights / "tokenizer.json"))), {"letter": 2}, known, 500)
    steps: list[tuple[int, int]] = []
    whole = Step.gradients

    def counted(self: Step, plan: Plan) -> torch.Tensor:
        steps.append((plan.seconds, plan.prefix.shape[1]))
        return whole(self, plan)

    monkeypatch.setattr(Step, "gradients", counted)
    orders = list[list[tuple[int, int]]]()
    for state, first in ((None, 0), (tmp_path / "state", 7)):
        drawn = (planner.plan(number) for number in range(first, first + 60))
        expected = list(dict.fromkeys((plan.seconds, plan.prefix.shape[1]) for plan in drawn))
        steps.clear()
        assert rehearse(CONFIG, weights, teacher(tmp_path / "teacher"), "cpu", state) == expected == steps
        orders.append(expected)
    assert len(orders[0]) == 4 and orders[0] != orders[1]
    assert rehearse(CONFIG, weights, tmp_path / "teacher", "cpu", seconds=0.0) == orders[0][:1]


def test_a_batch_without_a_word_is_a_step_too(tmp_path: Path) -> None:
    config = replace(CONFIG, batches=replace(CONFIG.batches, empty_share=1.0))
    known = {"librispeech": [Utterance(0, RATE, "a letter came", True, [])]}
    planner = Planner(config, Prompt(tiny_tokenizer(tmp_path)), {"letter": 2}, known, 1)
    model = PocketASR(CONFIG.shape)
    model.add_taught(32, 2)
    optimizer = Optimizer(model, CONFIG.optimisation, 0.0)
    teacher = WhisperEncoder(teacher_weights())
    step = Step(config, model, LogMel(), optimizer, torch.zeros(RATE, dtype=torch.int16), teacher)
    assert step.gradients(planner.plan(1)).isfinite().all() and optimizer.gradient.any()


class _Counted(HearingTrainer):
    """Ends after so many steps, by a clock that goes on by a second a step."""

    steps = 0
    report_every = 1

    def _order(self) -> float:
        return 2.0 if self.count >= self.steps else super()._order()


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> HearingRun:
    folder = tmp_path_factory.mktemp("given")
    row = {"file": "0.opus", "text": "The boy said that the sea was calm.", "cuts": [[8000, 2]]}
    (folder / "labels.jsonl").write_text(json.dumps(row) + "\n")
    made = folder / "made"
    made.mkdir()
    write_shard(made, "w00_0000", np.zeros(5 * 16000, np.int16), SENTENCES[0])
    return HearingRun(
        shards=(shard(folder / "en-train-00.tar", 12),), start=start(folder / "start"),
        script=(script(folder / "script.npz", "a ventriloquist spoke"),),
        teacher=teacher(folder / "teacher"), labels=(folder / "labels.jsonl",), synthetic=made,
        out=folder, seconds=1e6, device="cpu",
    )  # fmt: skip


def run(given: HearingRun, out: Path, steps: int, **more: Any) -> dict[str, Any]:
    trainer = _Counted(
        replace(CONFIG, batches=replace(CONFIG.batches, pool_hours=0.5)), replace(given, out=out, **more)
    )
    trainer.steps = steps
    trainer.train()
    return json.loads((out / "run.json").read_text())


@pytest.mark.slow
def test_a_run_that_is_cut_in_three_is_the_same_run(given: HearingRun, tmp_path: Path) -> None:
    """The losses are the same to the last digit, with a free layer too."""
    shape = replace(CONFIG.shape, encoder_layers=CONFIG.shape.encoder_layers + 1)
    given = replace(given, start=start(tmp_path / "three", shape))
    whole = run(given, tmp_path / "whole", 12)
    run(given, tmp_path / "first", 4)
    run(given, tmp_path / "second", 8, state=tmp_path / "first" / "state")
    third = run(given, tmp_path / "third", 12, state=tmp_path / "second" / "state")
    losses = [[row[0], *row[2:]] for row in whole["history"]]
    assert losses == [[row[0], *row[2:]] for row in third["history"]] and len(losses) == 12
    assert third["scores"][-1]["wer"].keys() == {"librispeech"} and third["hours"][SYNTHETIC]
    assert third["scores"][-1]["states"]["librispeech"] > 0
    one, other = (load_parts(tmp_path / name / "state")[0] for name in ("whole", "third"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_a_stretch_ends_with_what_could_ship(
    given: HearingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Counted, "_order", lambda self: 1.0 if self.count >= 6 else 0.0)
    told = run(given, tmp_path / "out", 0)
    state, before = load_parts(tmp_path / "out" / "state")
    weights, _ = load_parts(tmp_path / "out" / "weights")
    assert before["steps"] == 8 and told["steps"] == 9
    assert before["rate"] == pytest.approx(1 / 3) and [row["rate"] for row in told["scores"]] == [1, 1, 0.333, 0]
    assert weights.keys() == PocketASR(CONFIG.shape).state_dict().keys()
    assert any(not torch.equal(weights[name], state[name]) for name in weights)


@pytest.mark.slow
def test_a_stretch_ends_at_its_time_of_day_and_leaves_a_state(given: HearingRun, tmp_path: Path) -> None:
    assert run(given, tmp_path, 5, until=time.time())["steps"] == 0
    assert load_parts(tmp_path / "state")[1]["steps"] == 0


@pytest.mark.slow
def test_a_fall_that_was_cut_goes_on_at_its_rate_and_ends_with_the_clock(given: HearingRun, tmp_path: Path) -> None:
    """A step takes a second, by a clock of its own."""

    class Timed(_Counted):
        def step(self, done: float) -> torch.Tensor:
            rates.append(round(1.0 - done, 3))
            return super().step(done)

    def go(out: Path, steps: int) -> None:
        config = replace(CONFIG, batches=replace(CONFIG.batches, pool_hours=0.5))
        trainer = Timed(config, replace(given, out=out, seconds=22))
        first, began, trainer.steps = trainer.count, trainer.now() - trainer.seconds, steps
        trainer.now = lambda: began + trainer.count - first
        trainer.train()

    rates: list[float] = []
    go(tmp_path, 9)
    cut, (_, told) = len(rates), load_parts(tmp_path / "state")
    assert rates[0] == 1 and rates[-1] < 1 and told["steps"] == 8
    go(tmp_path, 100)
    assert rates[cut] == round(told["rate"], 3) > 2 * rates[-1] > 0
    assert rates[cut:] == sorted(rates[cut:], reverse=True)


def test_a_folder_becomes_a_shard_without_texts(tmp_path: Path) -> None:
    """Files that a list names stay out."""
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
        (f"{name}.ogg", "", "unlabelled", RATE) for name in "ac"
    ]
