"""The codec: what makes it streamable, what its quantiser keeps, and what a step may change."""

import json
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import soundfile
import torch

from bench.codec_quality import read_codes
from tests.training.tts.shapes import CONFIG, by_steps, tone_shard
from training.learner import Learner, captured
from training.parts import load_parts, save_parts
from training.ranks import Ranks
from training.run import kept, take
from training.tts.codec import ENCODING, Codec, load_codec, save_codec
from training.tts.codec_run import CodecRun, CodecStep, CodecTrainer, DecoderRun, DecoderStep, DecoderTrainer
from training.tts.codes import encode
from training.tts.config import FRAME, UNKNOWN
from training.tts.crops import Store
from training.tts.layers import SnakeBeta, compiled_snake
from training.tts.quantizer import SplitResidualVectorQuantizer
from training.tts.recordings import read_recordings, trimmed, write_codes
from training.tts.rows import stillest
from training.tts.speaker_encoder import as_recorded
from training.tts.speech import Speech, Utterance, load

CPU = torch.device("cpu")


def small() -> Codec:
    torch.manual_seed(0)
    return Codec(CONFIG.codec).eval()


def store(shard: Speech) -> Store:
    return Store(shard.arrays["wave"], shard.arrays["labels"], CPU)


def made(codec: Codec) -> CodecStep:
    speech = store(tone_shard("ada", frames=30))
    return CodecStep(codec, CONFIG.codec_training, speech, None, Ranks("cpu"))


@torch.inference_mode()
@pytest.mark.parametrize("frames", [1, 5, 11])
def test_the_decoder_needs_no_look_ahead(frames: int) -> None:
    """The first frames decoded alone are the beginning of the whole, also beyond the attention's window of 6 frames."""
    codec = small()
    codes = torch.randint(0, 32, (2, 3, 20))
    whole, alone = codec.decoder(codes), codec.decoder(codes[:, :, :frames])
    assert whole.shape == (2, 1, 20 * 1920)
    assert torch.allclose(alone, whole[..., : frames * 1920], atol=1e-6)


@torch.inference_mode()
def test_a_codec_file_gives_the_same_codes_and_sound(tmp_path: Path) -> None:
    """Codebooks are stored in float16 as their entries."""
    codec = small()
    for book in codec.decoder.quantizer.rvq_rest.vq.books:
        book.cluster_usage.fill_(7.0)
        book.embedding_sum.mul_(7.0)
    codec.load_state_dict({k: v.half().float() for k, v in codec.state_dict().items()})
    save_codec(codec, tmp_path / "codec.safetensors")
    again = load_codec(tmp_path / "codec.safetensors")
    codes = torch.randint(0, 32, (1, 3, 6))
    assert torch.allclose(again.decoder(codes), codec.decoder(codes), atol=2e-3)
    assert again.shape == codec.shape


def test_a_codec_of_another_shape_is_refused(tmp_path: Path) -> None:
    save_codec(small(), tmp_path / "codec")
    weights, told = load_parts(tmp_path / "codec")
    save_parts(tmp_path / "codec", {k: v for k, v in weights.items() if "0.mlp.up" not in k}, told)
    with pytest.raises(ValueError, match='Missing(?s:.)*"decoder.pre_transformer.layers.0.mlp.up_proj.weight"'):
        load_codec(tmp_path / "codec")


def test_every_book_takes_the_nearest_entry_of_what_is_left() -> None:
    torch.manual_seed(0)
    quantizer = SplitResidualVectorQuantizer(4, 16, 32)
    z = torch.randn(4, 16, 100)
    found, rest = quantizer(z), quantizer.rvq_rest
    left = rest.input_proj(z).transpose(1, 2).reshape(-1, 8)
    for i, book in enumerate(rest.vq.books):
        codes = found.codes[:, i + 1].reshape(-1)
        assert torch.equal(codes, torch.cdist(left, book.table()).argmin(1))
        left = left - book.table()[codes]
    assert torch.allclose(quantizer.decode(found.codes), found.value, atol=1e-5)


@pytest.mark.parametrize("free", [True, False])
def test_a_step_changes_the_encoder_alone(free: bool) -> None:
    codec = small().train()
    step = made(codec)
    before = {k: v.clone() for k, v in codec.state_dict().items()}
    run = step.begin(free=free)
    step.rate(1e-3)
    run()
    changed = {k for k, v in codec.state_dict().items() if not torch.equal(v, before[k])}
    assert any(k.startswith("encoder") for k in changed) and any("input_proj" in k for k in changed)
    assert all(ENCODING.match(k) for k in changed)
    assert all(torch.isfinite(v).all() for v in codec.state_dict().values())


# PyTorch warns of its own look at what is compiled.
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_snake_is_compiled_in_every_form_in_which_a_run_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit PyTorch compiles no more, and the form that comes last, at the full rate of samples, would be the
    slowest."""
    from torch._dynamo.utils import counters

    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", torch._dynamo.config.recompile_limit)
    counters.clear()
    monkeypatch.setattr(SnakeBeta, "function", staticmethod(compiled_snake(CPU, "eager")))
    monkeypatch.setattr("training.tts.codec_run.autocast", lambda _: torch.autocast("cpu", torch.bfloat16))
    codec = Codec(replace(CONFIG.codec, decoder_dim=32)).train()
    step = made(codec)
    for free in (True, False):
        step.begin(free=free)()
    assert counters["stats"]["unique_graphs"] > 4 and not counters["unimplemented"]


def test_what_a_captured_step_would_read_and_write_stays_where_it_is() -> None:
    """A graph replays addresses, so new crops and a new rate come into the same memory."""
    codec = small().train()
    step = made(codec)
    take(step.parts, kept(step.parts))
    run = step.begin(free=False)
    run()

    optimizer = step.learners[0].optimizer

    def places() -> list[int]:
        held = [*codec.state_dict().values(), *step.buffers, step.measures, optimizer.param_groups[0]["lr"]]
        held += [p.grad for p in codec.parameters() if p.grad is not None]
        held += [value for of in optimizer.state.values() for value in of.values()]
        return [tensor.data_ptr() for tensor in held]

    before, crop = places(), step.buffers[0].clone()
    step.rate(2e-3)
    run()
    assert places() == before and len(before) > 100
    assert not torch.equal(step.buffers[0], crop) and optimizer.param_groups[0]["lr"].item() == pytest.approx(2e-3)


def test_a_run_leaves_a_codec_and_goes_on_from_it(tmp_path: Path) -> None:
    """A run goes past the codebooks, through them, and on from there, and what decodes stays as it is."""
    save_codec(small(), tmp_path / "start.safetensors")
    tone_shard("ada", frames=40).save(tmp_path / "speech/ada-0.npz")
    tone_shard("ada", frames=40, held_out=True).save(tmp_path / "speech/ada-1.npz")
    start = tmp_path / "start.safetensors"
    run = CodecRun(start=start, speech=(tmp_path / "speech",), out=tmp_path / "out", seconds=7, device="cpu")
    by_steps(CodecTrainer(CONFIG, run)).train()
    about = json.loads((tmp_path / "out/codec.json").read_text())
    assert about["steps"] == 7 and about["history"] and about["scores"][-1]["distance"] > 0
    before = load_codec(tmp_path / "out/weights").state_dict()
    on = by_steps(CodecTrainer(CONFIG, replace(run, seconds=12)))
    assert on.count == 7
    assert all(torch.allclose(on.codec.state_dict()[k], v, atol=1e-2) for k, v in before.items() if "encoder" in k)
    on.train()
    assert on.count == 12
    after = load_codec(tmp_path / "out/weights").state_dict()
    began = load_codec(start).state_dict()
    moved = {k for k in before if not torch.allclose(after[k], began[k], rtol=1e-3, atol=1e-5)}
    assert moved and all(ENCODING.match(k) for k in moved) and any(not torch.equal(before[k], after[k]) for k in moved)


def test_a_run_ends_by_a_moment_too(tmp_path: Path) -> None:
    """The schedule of a run that goes on is as long as the run will be."""
    for number, held_out in enumerate((False, True)):
        tone_shard("ada", frames=40, held_out=held_out).save(tmp_path / f"speech/ada-{number}.npz")
    save_codec(small(), tmp_path / "start.safetensors")
    start, speech = tmp_path / "start.safetensors", (tmp_path / "speech",)
    run = CodecRun(start=start, speech=speech, out=tmp_path / "out", seconds=50, device="cpu", until=time.time() + 300)
    trainer = by_steps(CodecTrainer(CONFIG, run))
    done: list[float] = []
    step = trainer.step

    def noted(share: float) -> torch.Tensor:
        done.append(share)
        return step(share)

    trainer.step = noted
    trainer.given = replace(run, until=time.time() + 4.5)
    trainer.train()
    assert trainer.count in (4, 5) and done == [pytest.approx(i / 4.5, rel=0.1) for i in range(trainer.count)]


def test_steps_bring_the_encoder_closer_to_the_phones() -> None:
    """A decoder that is not trained tells no tone from another, so its distance would not fall."""
    step = made(small().train())
    run = step.begin(free=False)
    step.rate(2e-3)
    found = []
    for _ in range(40):
        run()
        found.append(step.measures[1].item())
    assert np.mean(found[-5:]) < 0.9 * np.mean(found[:5])


def test_crops_keep_labels_beside_samples() -> None:
    """A crop is the samples themselves with the labels that lie there, and its gain is within bounds."""
    shard = tone_shard("ada", count=1, frames=40)
    voice = store(shard)
    wave_of, labels_of = shard.arrays["wave"], shard.arrays["labels"]
    wave, labels = voice.crop(3, 10)
    for row, mark in zip(wave[:, 0], labels, strict=True):
        at = np.flatnonzero(np.isclose(wave_of[: 30 * 1920 : 480] / 32768, row[0].item(), atol=1e-6))
        found = [i for i in at if np.allclose(wave_of[i * 480 :][: len(row)] / 32768, row.numpy(), atol=1e-6)]
        assert found and np.array_equal(labels_of[found[0] :][:40], mark.numpy())
    peak = np.abs(wave_of).max() / 32768
    peaks = voice.crop(50, 10, 0.2)[0].abs().amax((1, 2)) / peak
    assert peaks.min() >= 0.79 and peaks.max() <= 1.21 and peaks.std() > 0.05


def test_codes_come_back_as_they_were_saved(tmp_path: Path) -> None:
    """An utterance has the same codes alone and in a batch with longer ones."""
    tone_shard("ada", count=3, frames=9).save(tmp_path / "ada-0.npz")
    short = tone_shard("ben", count=1, frames=5)
    short.save(tmp_path / "voice-0.npz")
    codec = small()
    codes = encode(codec, [tmp_path / "ada-0.npz", tmp_path / "voice-0.npz"], CPU)
    codes.save(tmp_path / "codes.npz")
    again = load(tmp_path / "codes.npz")
    assert again.utterances == codes.utterances and again.utterances[-1].speaker == "ben"
    assert np.array_equal(again.of("codes", 3), codes.of("codes", 3)) and again.of("codes", 3).shape == (5, 3)
    wave = torch.from_numpy(short.arrays["wave"].astype(np.float32) / 32768)[None, None]
    assert np.array_equal(codec.encode(wave)[0].T.numpy(), again.of("codes", 3))


def test_held_out_recordings_become_the_encoder_s_codes(tmp_path: Path) -> None:
    """Every second prompt is held out, whatever its rate, in whole frames. The shard that is trained on has the sounds
    of its texts, and lacks the texts that have none."""
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i, rate in enumerate((24000, 16000, 24000)):
            soundfile.write(tmp_path / f"{i}.wav", 0.1 * np.sin(np.arange(rate) / 9), rate)  # pyright: ignore
            tar.add(tmp_path / f"{i}.wav", f"./{i}.wav")
        about = {"speaker": "ada", "corpus": "Kathleen", "seconds": 1.0}
        rows = [{"file": f"{i}.wav", "text": text} | about for i, text in enumerate(("A.", "B 7", "C?"))]
        (tmp_path / "index.jsonl").write_text("\n".join(map(json.dumps, rows)))
        tar.add(tmp_path / "index.jsonl", "./index.jsonl")
    assert write_codes(small(), [tmp_path / "a.tar"], tmp_path / "held-out.npz", 2) == 2
    found = read_codes(tmp_path / "held-out.npz")
    assert [one.file for one in found] == ["0.wav", "2.wav"] and [one.codes.shape for one in found] == [(13, 3)] * 2
    sounds = {"A.": " ˈA.", "B 8": " bˈi", "C?": " sˈi?"}
    assert not read_recordings(tmp_path / "a.tar", sounds, ("librispeech",)).utterances
    read_recordings(tmp_path / "a.tar", sounds, every=2).save(tmp_path / "ada-0.npz")
    pieces = list(load(tmp_path / "ada-0.npz").pieces())
    assert [u for u, _, _ in pieces] == [Utterance(" ˈA.", "ada", 13, True), Utterance(" sˈi?", "ada", 13, False)]
    assert all(len(w) == 13 * 1920 and (x == UNKNOWN).all() and len(x) == 13 * 4 for _, w, x in pieces)


def test_a_gradient_that_is_no_number_changes_no_weight_and_the_others_are_clipped() -> None:
    weight, still = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    groups = [{"params": [weight, still], "weight_decay": 0.0, "pace": 0.5}]
    learner = Learner(groups, CPU, (0.0, 0.0), clip=1.0)
    learner.rate(0.2)
    for factor, wanted in ((float("nan"), 1.0), (50.0, 0.9)):
        learner.clear()
        (weight.sum() * factor).backward()
        learner.step()
        assert torch.allclose(weight, torch.full((3,), wanted), atol=1e-4)
    assert learner.norm == pytest.approx(50 * 3**0.5) and learner.gradient.norm() == pytest.approx(1.0)
    assert still.grad is None


def test_a_step_that_cannot_be_captured_runs_without_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no such device here, so the capture fails, which is said, and the step itself is given back."""
    if torch.cuda.is_available():
        pytest.skip("needs a machine where capture fails")
    count: list[int] = []
    step, pool = captured(lambda: count.append(1), lambda: None, torch.device("cuda"))
    step()
    assert count == [1] and pool is None
    assert "WARNING: no graph" in capsys.readouterr().out


def test_a_decoder_learns_against_judges_and_its_books_stay(tmp_path: Path) -> None:
    """Of two codings of the same speech each crop has one; neither the books nor the encoder change."""
    codec, shard = small().train(), tone_shard("ada", frames=30)
    frames = len(shard.arrays["wave"]) // FRAME
    codes = np.random.default_rng(0).integers(0, 32, (2, frames, 3)).astype(np.int16)
    speech = Store(shard.arrays["wave"], codes, CPU)
    assert speech.crop(5, 6)[1].shape == (5, 3, 6)
    judged = replace(CONFIG.decoder_training, batch=2, frames=12, slice_frames=6, history_frames=2)
    step = DecoderStep(
        codec.decoder, replace(judged, period_widths=(4, 4), spectrum_width=4), speech, None, Ranks("cpu")
    )
    before = {k: v.clone() for k, v in codec.state_dict().items()}
    run = step.begin()
    step.rate(1e-3)
    run()
    changed = {k for k, v in codec.state_dict().items() if not torch.equal(v, before[k])}
    assert any(k.startswith("decoder.decoder") for k in changed) and any("pre_transformer" in k for k in changed)
    assert not any(ENCODING.match(k) or "_codebook" in k for k in changed)
    assert all(torch.isfinite(v).all() for v in codec.state_dict().values())


def test_discriminators_learn_alone_and_a_decoder_begins_with_them(tmp_path: Path) -> None:
    """What they leave holds nothing of the decoder, which stays until it learns with them."""
    for number, held_out in enumerate((False, True)):
        tone_shard("ada", frames=40, held_out=held_out).save(tmp_path / f"speech/ada-{number}.npz")
    codec = small()
    save_codec(codec, tmp_path / "start")
    encode(codec, sorted((tmp_path / "speech").glob("*.npz")), CPU).save(tmp_path / "codes.npz")
    judged = replace(CONFIG.decoder_training, batch=2, frames=12, slice_frames=6, history_frames=2, warmup_steps=1)
    config = replace(CONFIG, decoder_training=replace(judged, period_widths=(4, 4), spectrum_width=4))
    run = DecoderRun(
        start=tmp_path / "start", speech=(tmp_path / "speech",), codes=(tmp_path / "codes.npz",),
        out=tmp_path / "judges", seconds=5, device="cpu", alone=True,
    )  # fmt: skip
    alone = by_steps(DecoderTrainer(config, run))
    before = {name: value.clone() for name, value in alone.codec.state_dict().items()}
    first = {name: value.clone() for name, value in alone.steps.discriminators.state_dict().items()}
    alone.train()
    assert all(torch.equal(alone.codec.state_dict()[name], value) for name, value in before.items())
    learnt = alone.steps.discriminators.state_dict()
    assert any(not torch.equal(learnt[name], value) for name, value in first.items())
    left, about = load_parts(tmp_path / "judges/state")
    assert about["steps"] == 5 and {name.partition(".")[0] for name in left} == set(alone.steps.judging)
    assert json.loads((tmp_path / "judges/judges.json").read_text())["scores"][-1]["distance"] > 0
    assert not (tmp_path / "judges/weights").exists()
    on = replace(run, out=tmp_path / "decoder", alone=False, judges=tmp_path / "judges/state", seconds=2)
    both = by_steps(DecoderTrainer(config, on))
    taken = both.steps.discriminators.state_dict()
    assert both.count == 0 and all(torch.allclose(taken[name], value, atol=1e-3) for name, value in learnt.items())
    both.train()
    weights = load_codec(tmp_path / "decoder/weights").state_dict()
    assert any(not torch.allclose(weights[name], value, atol=1e-5) for name, value in before.items())
    again = by_steps(DecoderTrainer(config, replace(on, judges=tmp_path / "decoder/state", out=tmp_path / "again")))
    kept, now = both.steps.discriminators.state_dict(), again.steps.discriminators.state_dict()
    assert all(torch.allclose(now[name], value, atol=1e-3) for name, value in kept.items())


def test_what_is_heard_as_recorded_stays_where_it_was() -> None:
    """An encoder that should say the same of both must find them at the same time and level."""
    torch.manual_seed(0)
    wave = 0.1 * torch.sin(torch.arange(48_000) * 2 * np.pi * 300 / 24_000).repeat(6, 1)
    wave[:, 24_000:] = 0
    heard = as_recorded(wave)
    assert heard.shape == wave.shape
    first, last = heard[:, 2000:22_000], heard[:, 40_000:]
    assert (0.05 < first.std(1)).all() and (first.std(1) < 0.11).all()
    assert (last.std(1) < 0.02).all() and last.std(1).max() > 1e-4


def test_an_encoder_that_has_learnt_does_not_go_past_the_codebooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, held_out in enumerate((False, True)):
        tone_shard("ada", frames=40, held_out=held_out).save(tmp_path / f"speech/ada-{number}.npz")
    begun: list[bool] = []
    begin = CodecStep.begin
    monkeypatch.setattr(CodecStep, "begin", lambda self, *, free: begun.append(free) or begin(self, free=free))
    for steps, expected in ((0, [True, False]), (3, [False])):
        save_codec(small(), tmp_path / f"codec-{steps}", steps=steps)
        out = tmp_path / f"out-{steps}"
        run = CodecRun(
            start=tmp_path / f"codec-{steps}", speech=(tmp_path / "speech",), out=out, seconds=4, device="cpu"
        )
        begun.clear()
        by_steps(CodecTrainer(CONFIG, run)).train()
        assert begun == expected


def test_long_pauses_between_words_are_cut() -> None:
    """Kokoro's speech has none, and silence in readers' speech would be learnt as a way to go on."""
    word, pause = np.sin(np.arange(24_000) * 0.1).astype(np.float32), np.zeros(48_000, np.float32)
    short = np.zeros(4_800, np.float32)
    cut = trimmed(np.concatenate([word, pause, word, short, word]))
    assert len(cut) == pytest.approx(3 * 24_000 + 0.28 * 24_000 + 4_800, abs=1000)


def test_speech_that_stays_at_one_code_is_told() -> None:
    assert stillest(np.array([1, 2, 2, 2, 3, 2, 2], np.int16)) == 3
    assert stillest(np.array([5], np.int16)) == 1
