"""The small Qwen3-ASR: decoding agrees with training, padding and neighbours change nothing, and checkpoints come
back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from training.asr.align import quietest, viterbi
from training.asr.augment import augment, generated_music, mask_spectrogram
from training.asr.checkpoint import load_checkpoint, save_checkpoint
from training.asr.config import Regularisation
from training.asr.encoder import token_count
from training.asr.evaluate import collapse, error_rate
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel, past_end

from .shapes import CONFIG, tiny_tokenizer


@pytest.fixture(scope="module")
def model() -> PocketASR:
    torch.manual_seed(3)
    made = PocketASR(CONFIG.shape).eval()
    with torch.no_grad():  # The choices are made sharper, so that an error is seen in the argmax.
        made.thinker.model.embed_tokens.weight.mul_(3)
    return made


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Prompt:
    return Prompt(tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


def prefixes(prompt: Prompt, contexts: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [prompt.prefix(c) for c in contexts]
    padded = torch.full((len(rows), max(map(len, rows)) + 3), prompt.pad)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.tensor(row)
    return padded, torch.tensor([len(r) for r in rows])


def test_rows_of_the_encoder_are_counted_as_the_official_code_counts_them() -> None:
    for frames, rows in ((100, 13), (1, 1), (8, 1), (9, 2), (50, 7), (199, 26), (800, 104), (801, 105)):
        assert int(token_count(torch.tensor(frames))) == rows


def test_rows_of_longer_chunks_are_counted_too() -> None:
    for frames, chunk, rows in (
        (400, 400, 50),
        (1, 400, 1),
        (399, 400, 50),
        (401, 400, 51),
        (200, 200, 25),
        (99, 200, 13),
    ):
        assert int(token_count(torch.tensor(frames), chunk)) == rows


def test_positions_run_through_a_longer_chunk() -> None:
    shape = replace(CONFIG.shape, chunk_frames=400)
    tower = PocketASR(shape).eval().thinker.audio_tower
    assert tower.position.shape == (50, shape.d_model) and tower.window_chunks == 2
    heard = tower(torch.randn(1, 128, 1200), torch.tensor([1100]))
    assert heard.states.shape[1] == 200 and heard.stem.shape[1] == 150 and int(heard.count) == 138


def test_positions_of_its_own_run_through_a_window_and_the_official_ones_begin_anew_in_each_chunk() -> None:
    mel = torch.randn(1, 128, 200).repeat(1, 1, 5)  # One chunk five times, in windows of four.
    for placed, alike in ((True, False), (False, True)):
        shape = replace(CONFIG.shape, placed=placed)
        model = PocketASR(shape).eval()
        tower = model.thinker.audio_tower
        if tower.positions is not None:
            torch.nn.init.normal_(tower.positions)
        assert ("thinker.audio_tower.positions" in model.state_dict()) == placed
        first, second, *_, fifth = tower(mel, torch.tensor([1000])).states[0, : 5 * shape.chunk_rows].split(25)
        assert torch.allclose(first, second, atol=1e-5) == alike
        alone = tower(mel[..., :200], torch.tensor([200])).states[0]
        torch.testing.assert_close(fifth, alone, atol=1e-4, rtol=1e-4)


def test_greedy_decoding_is_the_argmax_of_training(model: PocketASR, prompt: Prompt) -> None:
    frames = torch.tensor([1600, 455])
    mel = past_end(torch.randn(2, 128, 1600), frames)
    prefix, count = prefixes(prompt, [[], ["letter", "house"]])
    ids, _, _ = model.transcribe(mel, frames, prefix, count, torch.tensor(prompt.suffix), prompt.end, 12)
    targets = torch.cat([torch.tensor(prompt.suffix).expand(2, -1), ids], 1)
    again = model.read(model.hear(mel, frames), prefix, count, targets).logits.argmax(-1)[:, len(prompt.suffix) - 1 :]
    for row in range(2):
        until = ids[row].tolist().index(prompt.end) if prompt.end in ids[row] else ids.shape[1]
        assert (again[row, :until] == ids[row, :until]).all()


def test_a_row_is_the_same_alone_and_in_a_batch(model: PocketASR, prompt: Prompt) -> None:
    frames = torch.tensor([455, 1600])
    mel = past_end(torch.randn(2, 128, 1600), frames)
    prefix, count = prefixes(prompt, [["sea"], []])
    targets = torch.tensor([[*prompt.suffix, *prompt.english, *prompt.words(["boy"]), prompt.end]] * 2)
    both = model.read(model.hear(mel, frames), prefix, count, targets)
    heard = model.hear(mel[:1, :, :600], frames[:1])
    alone = model.read(heard, prefix[:1, : count[0]], count[:1], targets[:1])
    rows = int(token_count(frames[0]))
    torch.testing.assert_close(both.logits[0], alone.logits[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(both.ctc[0, :rows], alone.ctc[0, :rows], rtol=1e-4, atol=1e-4)


def test_a_frame_depends_on_its_own_samples_only() -> None:
    mel, samples = LogMel(), torch.randn(1, 16000) * 0.1
    louder = samples.clone()
    louder[:, 8000:] *= 50
    first, second = mel(samples), mel(louder)
    assert first.shape == (1, 128, 100)
    torch.testing.assert_close(first[..., :48], second[..., :48])
    assert not torch.allclose(first[..., 60:], second[..., 60:])


def test_masks_keep_shapes_and_silence_the_end() -> None:
    frames = torch.tensor([100, 40])
    out = mask_spectrogram(torch.ones(2, 128, 100), frames, torch.tensor(1.0))
    assert out.shape == (2, 128, 100) and not out[1, :, 40:].any()
    assert 0.3 < float(out[0].mean()) <= 1


def test_augmented_speech_stays_in_range_and_differs_between_views() -> None:
    torch.manual_seed(1)
    samples = torch.randn(1, 32000).repeat(4, 1) * 0.1
    out = augment(samples, torch.full((4,), 32000), torch.tensor(1.0))
    assert out.shape == samples.shape and float(out.abs().max()) <= 1 and bool(out.isfinite().all())
    assert not torch.allclose(out[0], out[1])


def test_generated_music_is_reproducible() -> None:
    first, second = generated_music(2, 1.0, 5), generated_music(2, 1.0, 5)
    assert all((a == b).all() for a, b in zip(first, second, strict=True)) and abs(first[0]).max() > 5000


def test_forced_alignment_finds_the_planted_path() -> None:
    blank, path = 4, [4, 4, 1, 1, 4, 1, 2, 2, 4, 3, 4]
    scores = torch.full((1, len(path), 5), -9.0)
    for i, label in enumerate(path):
        scores[0, i, label] = -0.01
    found = viterbi(scores, torch.tensor([[1, 1, 2, 3]]), torch.tensor([len(path)]), torch.tensor([4]), blank)
    assert found.tolist() == [[2, 5, 6, 9]]


def test_words_are_cut_where_it_is_quietest() -> None:
    energy = torch.ones(100).numpy()
    energy[37] = 0.1
    assert quietest(energy, 20 * 80, 60 * 80) == 37 * 80


def test_ctc_paths_collapse_and_errors_are_counted() -> None:
    assert collapse(torch.tensor([4, 1, 1, 4, 1, 2]), 4) == [1, 1, 2]
    assert error_rate(["The cat sat.", "It\u2019s 5, Mr. X!"], ["the bat sat down", "it's 5 mr x"]) == round(200 / 7, 2)


def test_a_checkpoint_comes_back(model: PocketASR, tmp_path: Path) -> None:
    tiny_tokenizer(tmp_path / "tokenizer")
    save_checkpoint("tiny", CONFIG.shape, model.state_dict(), tmp_path / "tokenizer", tmp_path / "out")
    thinker = json.loads((tmp_path / "out" / "config.json").read_text())["thinker_config"]
    assert thinker["audio_config"]["d_model"] == CONFIG.shape.d_model
    shape, weights = load_checkpoint(tmp_path / "out")
    assert shape == CONFIG.shape
    assert weights.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=1e-3, atol=1e-3)
    extra = json.loads((tmp_path / "out" / "config.json").read_text())["hearsay"]
    assert extra["ctc"] == {"blank": CONFIG.shape.vocab} and extra["mel_floor"] == {"kind": "fixed", "log10": -6.5}


def test_free_layers_follow_no_teacher_but_learn() -> None:
    """The distance to a teacher's states asks nothing of them, and what is said asks something of all layers."""
    layers = CONFIG.shape.encoder_layers
    model = PocketASR(replace(CONFIG.shape, encoder_layers=layers + 2), Regularisation(dropout=0.0))
    model.add_taught(model.shape.d_model, layers)
    heard = model.hear(torch.randn(1, model.shape.mel_bins, 400), torch.tensor([400]))
    for loss, asked in ((model.taught(heard.followed), range(layers)), (model.ctc(heard.states), range(layers + 2))):
        model.zero_grad()
        loss.square().mean().backward(retain_graph=True)
        for i, layer in enumerate(model.thinker.audio_tower.layers):
            found = [p.grad for p in layer.parameters() if p.grad is not None and p.grad.any()]
            assert bool(found) == (i in asked), i
