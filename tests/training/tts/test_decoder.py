"""The decoder against discriminators: what a step may change, what a run goes on from; codes as a talker makes them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, by_steps, random_codes, tokenizer, tone_shard
from training.ranks import Ranks
from training.tts.codec import Codec, load_codec, save_codec
from training.tts.codec_run import DecoderRun, DecoderStep, DecoderTrainer
from training.tts.codes import encode, own_codes
from training.tts.crops import Store, stores
from training.tts.discriminators import Discriminators, verdict
from training.tts.references import References
from training.tts.speech import concatenate, load, shards
from training.tts.talker import Talker

CPU = torch.device("cpu")


def small() -> Codec:
    torch.manual_seed(0)
    return Codec(CONFIG.codec).eval()


def coded(folder: Path) -> tuple[Path, Path, Path]:
    """(codec, folder of shards, their codes), short utterances among long ones."""
    tone_shard("ada", frames=40).save(folder / "speech/ada-0.npz")
    tone_shard("ada", frames=40, held_out=True).save(folder / "speech/ada-1.npz")
    tone_shard("ben", count=2, frames=9).save(folder / "speech/ben-0.npz")
    save_codec(small(), folder / "codec.safetensors")
    codes = encode(load_codec(folder / "codec.safetensors"), shards([folder / "speech"]), CPU)
    codes.save(folder / "codes.npz")
    return folder / "codec.safetensors", folder / "speech", folder / "codes.npz"


def test_a_crop_s_codes_stand_for_its_samples(tmp_path: Path) -> None:
    codec, speech, codes = coded(tmp_path)
    trained, held = stores((speech,), (codes,), CPU)
    assert (len(trained.wave), len(held.wave)) == (4 * 40 + 2 * 9, 4 * 40)
    whole = load(codes)
    assert np.array_equal(trained.beside[0, -9:].numpy(), whole.of("codes", 9)) and whole.utterances[9].speaker == "ben"
    wave, found = trained.crop(3, 10)
    for i in range(3):
        frames = trained.wave.float() / 32768
        at = next(k for k in range(len(frames)) if torch.equal(frames[k : k + 10].flatten(), wave[i, 0]))
        assert torch.equal(found[i].T, trained.beside[0, at : at + 10].long())
    with pytest.raises(ValueError, match="not fit"):
        held.crop(1, 160)
    replace(whole, utterances=whole.utterances[::-1]).save(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="utterance 0 is another"):
        stores((speech,), (codes, tmp_path / "other.npz"), CPU)
    concatenate([whole, whole]).save(tmp_path / "more.npz")
    with pytest.raises(ValueError, match="20 utterances, in the shards 10"):
        stores((speech,), (tmp_path / "more.npz",), CPU)


def test_a_step_changes_the_decoder_and_its_judges_and_no_code() -> None:
    codec = small().train()
    wave = torch.rand(30 * 1920).mul(20000).to(torch.int16).numpy()
    store = Store(wave, np.random.default_rng(1).integers(0, 32, (2, 30, 3)).astype(np.int16), CPU)
    step = DecoderStep(codec.decoder, CONFIG.decoder_training, store, None, Ranks("cpu"))
    parts = {"codec": codec, "judges": step.discriminators}
    before = {n: {k: v.clone() for k, v in p.state_dict().items()} for n, p in parts.items()}
    run = step.begin()
    step.rate(1e-3)
    run()
    changed = {
        f"{n}.{k}" for n, p in parts.items() for k, v in p.state_dict().items() if not torch.equal(v, before[n][k])
    }
    assert any(k.startswith("codec.decoder.decoder.") for k in changed)
    assert {k.split(".")[2] for k in changed if k.startswith("judges.")} == {str(i) for i in range(8)}
    assert not any(k.startswith("codec.encoder") for k in changed)
    assert {k.split(".")[4] for k in changed if k.startswith("codec.decoder.quantizer")} == {"output_proj"}
    assert torch.isfinite(step.measures).all()


def test_discriminators_learn_to_tell_tones_from_noise() -> None:
    torch.manual_seed(1)
    judges = Discriminators((8, 16), 8)
    optimizer = torch.optim.AdamW(judges.parameters(), 2e-3)
    at = torch.arange(5760) / 24000
    told: list[float] = []
    for _ in range(80):
        tone = 0.1 * torch.sin(2 * torch.pi * (200 + 100 * torch.rand(4, 1, 1)) * at)
        found = verdict(judges(tone), judges(0.07 * torch.randn(4, 1, 5760)))
        optimizer.zero_grad()
        found.telling.backward()
        optimizer.step()
        told.append(found.telling.item())
    assert told[-1] < 0.5 * told[0]


def test_a_run_leaves_a_codec_with_the_same_codes_and_goes_on(tmp_path: Path) -> None:
    codec, speech, codes = coded(tmp_path)
    out = tmp_path / "out"
    run = DecoderRun(start=codec, speech=(speech,), codes=(codes,), out=out, seconds=2, device="cpu")
    by_steps(DecoderTrainer(CONFIG, run)).train()
    made = tmp_path / "out/codec.safetensors"
    again = encode(load_codec(made), shards([speech]), CPU)
    assert np.array_equal(again.arrays["codes"], load(codes).arrays["codes"])
    assert json.loads((tmp_path / "out/decoder.json").read_text())["scores"][-1]["distance"] > 0
    on = by_steps(DecoderTrainer(CONFIG, replace(run, codes=(codes, codes), seconds=3)))
    assert on.count == 2 and len(on.speech.beside) == 2 and len(on.held_out.beside) == 1
    on.train()
    assert on.count == 3


def test_own_codes_keep_the_first_book_and_those_that_do_not_fit(tmp_path: Path) -> None:
    torch.manual_seed(2)
    codes = random_codes(count=6, frames=24)
    long = replace(codes.utterances[2], text=" and".join([codes.utterances[2].text] * 20))  # more tokens than frames
    codes.utterances[2] = long
    talker = Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker)
    own = own_codes(talker, codes, CONFIG, tokenizer(tmp_path), References([], CONFIG.speakers, CPU))
    given, made = codes.arrays["codes"], own.arrays["codes"]
    assert np.array_equal(made[:, 0], given[:, 0]) and own.utterances == codes.utterances
    assert np.array_equal(own.of("codes", 2), codes.of("codes", 2))
    same = [np.mean(own.of("codes", i)[:, 1:] == codes.of("codes", i)[:, 1:]) for i in (0, 1, 3, 4, 5)]
    assert max(same) < 0.3
