"""The codec: what makes it streamable, what its quantiser keeps, what a step may change."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, random_codes, tone_shard
from training.tts import codec_run
from training.tts.codec import Codec, half, load_codec, save_codec, save_decoder
from training.tts.codec_run import CodecRun, CodecTrainer, Part
from training.tts.codec_step import CodecStep, Phase
from training.tts.codes import encode, load_codes
from training.tts.crops import Crops, place
from training.tts.graph import captured
from training.tts.quantizer import SplitResidualVectorQuantizer
from training.tts.speech import Shard

CPU = torch.device("cpu")


def small() -> Codec:
    torch.manual_seed(0)
    return Codec(CONFIG.codec).eval()


def crops() -> Crops:
    shard = tone_shard("slt", frames=30)
    return Crops(place([shard], CPU, held_out=False), None, 0.5, 0.0)


@torch.inference_mode()
@pytest.mark.parametrize("frames", [1, 5, 11])
def test_the_decoder_needs_no_look_ahead(frames: int) -> None:
    """The first frames decoded alone are the beginning of the whole, also beyond the attention window (6 frames)."""
    codec = small()
    codes = torch.randint(0, 32, (2, 3, 20))
    whole, alone = codec.decoder(codes), codec.decoder(codes[:, :, :frames])
    assert whole.shape == (2, 1, 20 * 1920)
    assert torch.allclose(alone, whole[..., : frames * 1920], atol=1e-6)


@torch.inference_mode()
def test_a_codec_file_gives_the_same_codes_and_sound(tmp_path: Path) -> None:
    """float16 codebooks are stored as their entries."""
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
    wider = load_codec(tmp_path / "codec.safetensors", replace(CONFIG.codec, codebook_size=64))
    assert torch.equal(wider.decoder.pre_conv.conv.weight, again.decoder.pre_conv.conv.weight)
    assert wider.decoder.quantizer.rvq_first.vq.books[0].table().shape == (64, 8)


def test_every_codebook_brings_the_value_closer() -> None:
    """k-means on what is left: the error of clustered data falls with every book and codes decode to the value."""
    torch.manual_seed(0)
    quantizer = SplitResidualVectorQuantizer(4, 16, 32)
    z = torch.randn(4, 16, 100)
    quantizer.cluster(z, 1.0)
    found = quantizer(z)
    rest = quantizer.rvq_rest
    projected = rest.input_proj(z)
    books = rest.vq.books
    left = projected.transpose(1, 2).reshape(-1, 8)
    sizes = [left.square().mean().item()]
    for i, book in enumerate(books):
        left = left - book.table()[found.codes[:, i + 1].reshape(-1)]
        sizes.append(left.square().mean().item())
    assert all(b < 0.8 * a for a, b in zip(sizes, sizes[1:], strict=False))
    assert torch.allclose(quantizer.decode(found.codes), found.value, atol=1e-5)


def test_unused_entries_come_back_to_life() -> None:
    book = SplitResidualVectorQuantizer(2, 16, 32).rvq_first.vq.books[0]
    book.embedding_sum.copy_(torch.full((32, 8), 100.0))
    x = torch.randn(500, 8)
    for _ in range(300):
        book.learn(x, book.nearest(x), 0.9, 0.5)
    assert len(book.nearest(x).unique()) > 20


@pytest.mark.parametrize("phase", list(Phase))
def test_a_step_changes_what_its_phase_may_change(phase: Phase) -> None:
    codec = small().train()
    codes = torch.randint(0, 32, (50, 3), dtype=torch.int16)
    step = CodecStep(codec, CONFIG.codec_training, crops(), CPU, graphs=False, codes=codes)
    if phase not in (Phase.UNQUANTISED, Phase.TAUGHT):
        step.begin_codebooks(batches=4)
    before = {k: v.clone() for k, v in codec.state_dict().items()}
    rate, run = step.phase(phase)
    rate(1e-3)
    run()
    changed = {k for k, v in codec.state_dict().items() if not torch.equal(v, before[k])}
    books = any("_codebook" in k for k in changed)
    encoder = any(k.startswith("encoder") for k in changed)
    assert any(k.startswith("decoder.decoder.") for k in changed) == (phase is not Phase.TAUGHT)
    assert (books, encoder) == {
        Phase.UNQUANTISED: (False, True), Phase.JOINT: (True, True), Phase.GIVEN: (False, True),
        Phase.ADVERSARIAL: (False, False), Phase.TAUGHT: (False, True),
    }[phase]  # fmt: skip
    if phase is Phase.GIVEN:
        assert not any(k.startswith("decoder.quantizer") for k in changed)
    assert all(torch.isfinite(v).all() for v in codec.state_dict().values())


def test_steps_bring_decoded_tones_closer() -> None:
    codec = small().train()
    step = CodecStep(codec, CONFIG.codec_training, crops(), CPU, graphs=False)
    rate, run = step.phase(Phase.UNQUANTISED)
    rate(2e-3)
    distances = []
    for _ in range(40):
        run()
        distances.append(step.measures[0].item())
    assert np.mean(distances[-5:]) < 0.7 * np.mean(distances[:5])


def test_crops_at_their_own_rate_keep_labels_beside_samples() -> None:
    """At speed 0 a crop is the samples themselves, and its labels are those that lie there."""
    shard = tone_shard("slt", count=1, frames=40)
    voice = place([shard], CPU, held_out=False)
    assert voice is not None
    wave, _, labels = voice.crop(3, 10, 0.0)
    for row, mark in zip(wave, labels, strict=True):
        at = np.flatnonzero(np.isclose(shard.wave[: 30 * 1920 : 480] / 32768, row[0].item(), atol=1e-6))
        found = [i for i in at if np.allclose(shard.wave[i * 480 :][: len(row)] / 32768, row.numpy(), atol=1e-6)]
        assert found and np.array_equal(shard.labels[found[0] :][:40], mark.numpy())
    wave, _, labels = voice.crop(2, 10, 0.06)
    assert wave.shape == (2, 19200) and labels.shape == (2, 40) and wave.abs().max() < 1


def test_codes_come_back_as_they_were_saved(tmp_path: Path) -> None:
    """Alone or in a batch with longer ones, an utterance has the same codes."""
    tone_shard("slt", count=3, frames=9).save(tmp_path / "slt-0.npz")
    short = tone_shard("kathleen", count=1, frames=5)
    short.save(tmp_path / "voice-0.npz")
    codec = small()
    codes = encode(codec, [tmp_path / "slt-0.npz", tmp_path / "voice-0.npz"], CPU)
    codes.save(tmp_path / "codes.npz")
    again = load_codes(tmp_path / "codes.npz")
    assert again.text == codes.text and again.speaker[-1] == "kathleen"
    assert np.array_equal(again.of(3), codes.of(3)) and again.of(3).shape == (5, 3)
    wave = torch.from_numpy(short.wave.astype(np.float32) / 32768)[None, None]
    assert np.array_equal(codec.encode(wave)[0].T.numpy(), again.of(3))


@torch.inference_mode()
def test_a_codec_grows_without_changing_what_it_computes(tmp_path: Path) -> None:
    """A wider decoder that begins from a smaller one decodes alike where layers only add channels."""
    codec = small()
    save_codec(codec, tmp_path / "codec.safetensors")
    again = load_codec(tmp_path / "codec.safetensors")
    wider = load_codec(tmp_path / "codec.safetensors", replace(CONFIG.codec, decoder_dim=32))
    codes = torch.randint(0, 32, (1, 3, 6))
    assert wider.decoder.decoder[0].conv.weight.shape[0] == 32
    assert torch.allclose(wider.decoder(codes), again.decoder(codes), atol=1e-4)


def test_the_decoder_alone_leaves_codes_as_they_are(tmp_path: Path) -> None:
    """Codes first, then the decoder: both runs leave a codec, and what was frozen is equal to the last bit."""
    tone_shard("slt", frames=40).save(tmp_path / "speech/slt-0.npz")
    tone_shard("slt", frames=40, held_out=True).save(tmp_path / "speech/slt-1.npz")
    speech = (tmp_path / "speech",)
    run = CodecRun(speech, tmp_path / "codes", 1e9, steps=5, device="cpu", part=Part.CODES)
    CodecTrainer(CONFIG, run).train()
    made = tmp_path / "codes/codec.safetensors"
    with pytest.raises(ValueError, match="needs --start"):
        CodecTrainer(CONFIG, replace(run, part=Part.DECODER))
    CodecTrainer(CONFIG, replace(run, part=Part.DECODER, start=made, out=tmp_path / "decoder")).train()
    before, after = load_codec(made).state_dict(), load_codec(tmp_path / "decoder/codec.safetensors").state_dict()
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    assert changed and all(k.startswith("decoder.") and "quantizer" not in k for k in changed)
    assert (tmp_path / "decoder/codec.png").exists()


def test_an_encoder_learns_the_codes_it_is_taught() -> None:
    """Of decoded codes it finds the semantic ones again."""
    codec = small().train()
    codec.decoder.quantizer.rvq_first.vq.books[0].embedding_sum.mul_(4.0)  # apart from each other, as learnt ones are
    codes = torch.randint(0, 3, (200, 3), dtype=torch.int16)
    training = replace(CONFIG.codec_training, gain=0.0)
    step = CodecStep(codec, training, crops(), CPU, graphs=False, codes=codes)
    rate, run = step.phase(Phase.TAUGHT)
    rate(3e-3)
    found = []
    for _ in range(60):
        run()
        found.append(step.measures[2].item())
    assert np.mean(found[-5:]) < 0.92 * np.mean(found[:5])


def test_a_new_encoder_learns_given_books(tmp_path: Path) -> None:
    """From a file without an encoder: one is trained, books and projections stay, the decoder stays until its time."""
    tone_shard("slt", frames=40).save(tmp_path / "speech/slt-0.npz")
    tone_shard("slt", frames=40, held_out=True).save(tmp_path / "speech/slt-1.npz")
    save_decoder(small(), tmp_path / "shipped.safetensors")
    with pytest.raises(ValueError, match="without its encoder"):
        load_codec(tmp_path / "shipped.safetensors")
    alone = CodecRun((), tmp_path / "a", 1e9, start=tmp_path / "shipped.safetensors", device="cpu", part=Part.DECODER)
    with pytest.raises(ValueError, match="without its encoder"):
        CodecTrainer(CONFIG, alone)
    codes = random_codes()
    codes.save(tmp_path / "codes.npz")
    training = replace(
        CONFIG.codec_training, taught_steps=2, free_steps=2, closing_steps=2, decoder_after=4, slice_frames=6,
        envelope_weight=5.0, loudness_weight=1.0, adversarial_share=0.0,
    )  # fmt: skip
    config = replace(CONFIG, codec_training=training)
    run = CodecRun(
        (tmp_path / "speech",),
        tmp_path / "a",
        1e9,
        steps=4,
        device="cpu",
        part=Part.ENCODER,
        codes=tmp_path / "codes.npz",
    )
    with pytest.raises(ValueError, match="needs --start"):
        CodecTrainer(config, run)
    before = load_codec(tmp_path / "shipped.safetensors", encoder=False).state_dict()
    for steps, decoder in ((4, False), (6, True)):
        trainer = CodecTrainer(config, replace(run, start=tmp_path / "shipped.safetensors", steps=steps))
        trainer.train()
        after = load_codec(tmp_path / "a/codec.safetensors").state_dict()
        changed = {k for k in before if k.startswith("decoder.") and not torch.equal(before[k], after[k])}
        assert bool(changed) == decoder and not any("quantizer" in k for k in changed)
        assert trainer.scores[-1]["envelopes"] and trainer.scores[-1]["loudness"]


def test_the_decoder_learns_the_codes_of_the_encoder_that_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is saved of a new encoder is its moving average; against discriminators nothing but the decoder changes."""
    tone_shard("slt", frames=40).save(tmp_path / "speech/slt-0.npz")
    tone_shard("slt", frames=40, held_out=True).save(tmp_path / "speech/slt-1.npz")
    save_decoder(small(), tmp_path / "shipped.safetensors")
    training = replace(CONFIG.codec_training, free_steps=2, closing_steps=2, decoder_after=2, rate=3e-3)
    assert training.average and training.adversarial_share
    run = CodecRun(
        (tmp_path / "speech",), tmp_path / "a", 1e9, start=tmp_path / "shipped.safetensors", steps=8, device="cpu",
        part=Part.ENCODER,
    )  # fmt: skip
    heard: list[dict[str, torch.Tensor]] = []

    class Noted(CodecStep):
        def phase(self, phase: Phase) -> tuple[Callable[[float], None], Callable[[], None]]:
            rate, step = super().phase(phase)

            def run() -> None:
                step()
                heard.append({k: v.clone() for k, v in self.codec.state_dict().items() if phase is Phase.ADVERSARIAL})

            return rate, run

    monkeypatch.setattr(codec_run, "CodecStep", Noted)
    CodecTrainer(replace(CONFIG, codec_training=training), run).train()
    assert len(heard) == 16 and {bool(h) for h in heard[:8]} == {False} and all(heard[8:])
    before, after = (load_codec(tmp_path / "a" / f"{name}.safetensors").state_dict() for name in ("codec-mel", "codec"))
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    assert changed and all(k.startswith("decoder.") and "quantizer" not in k for k in changed)
    for weights in heard[8:]:
        found = half(weights)
        assert all(torch.equal(found[k].float(), after[k]) for k in after if not k.startswith("decoder."))


def test_a_step_that_cannot_be_captured_runs_without_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    """Here there is no device at all: capture fails, which is said, and the step itself is given back."""
    if torch.cuda.is_available():
        pytest.skip("needs a machine where capture fails")
    count: list[int] = []
    step, pool = captured(lambda: count.append(1), lambda: None, torch.device("cuda"), graphs=True)
    step()
    assert count == [1] and pool is None
    assert "WARNING: no graph" in capsys.readouterr().out


def test_half_of_the_crops_are_heard_another_way() -> None:
    said = tone_shard("kathleen")
    other = Shard(-said.wave, said.labels, said.utterances)
    voice = place([said], CPU, held_out=False, heard=[other])
    assert voice is not None
    torch.manual_seed(1)
    wave, heard, _ = Crops(None, voice, 1.0, 0.0).take(40, 10)
    turned = [torch.equal(a, -b) for a, b in zip(wave, heard, strict=True)]
    same = [torch.equal(a, b) for a, b in zip(wave, heard, strict=True)]
    assert all(a != b for a, b in zip(turned, same, strict=True)) and 8 < sum(turned) < 32
    with pytest.raises(ValueError, match="heard: 4 utterances that are not the 4"):
        place([said], CPU, held_out=False, heard=[tone_shard("slt")])
