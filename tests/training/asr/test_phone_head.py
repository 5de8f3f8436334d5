"""A phone head fitted to an encoder that stays as it is, and what a checkpoint says of it."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.asr.shapes import CONFIG, tiny_tokenizer
from training.asr.checkpoint import begin_with, load_weights, save_checkpoint, save_weights
from training.asr.config import inner_layer
from training.asr.model import PocketASR
from training.asr.phone_head import Heard, fit, hear, loss_of
from training.asr.phones import FRAMES_PER_ROW
from training.asr.pronunciation import Speller, save
from training.shards import RATE, Clip

PHONES = 5


def made(count: int, seed: int) -> list[Heard]:
    """States that say their phones plainly: one dimension a phone, a row each."""
    draw = np.random.default_rng(seed)
    heard: list[Heard] = []
    for _ in range(count):
        phones = draw.integers(0, PHONES, draw.integers(2, 9)).tolist()
        states = draw.normal(0, 0.3, (len(phones) + 2, CONFIG.shape.d_model))
        for i, p in enumerate(phones):
            states[i + 1, p] += 4
        heard.append(Heard(states.astype(np.float16), phones))
    return heard


def test_the_head_learns_and_nothing_else_changes() -> None:
    torch.manual_seed(0)
    model = PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    unseen = made(20, 9)
    start = loss_of(model, unseen)
    losses = fit(model, made(600, 1), 30)
    assert losses[-1] < 0.3 * losses[0] and loss_of(model, unseen) < 0.2 * start
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"phones.0.weight", "phones.0.bias", "phones.1.weight", "phones.1.bias"}


def test_a_model_without_head_and_nothing_heard_are_errors() -> None:
    with pytest.raises(ValueError, match="no phone head"):
        fit(PocketASR(CONFIG.shape), made(2, 1), 1)
    with pytest.raises(ValueError, match="nothing to learn from"):
        fit(PocketASR(CONFIG.shape, phones=PHONES), [], 1)


class Spelt:
    """Phones by letter: what `hear` needs of pronunciations."""

    def of(self, words: list[str]) -> list[int]:
        return [ord(c) % PHONES for word in words for c in word]


def test_clips_are_heard_alone_as_among_others() -> None:
    torch.manual_seed(0)
    model = PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES).eval()
    draw = np.random.default_rng(3)
    clips = [
        Clip((draw.normal(0, 3000, n)).astype(np.int16), text, "", "LibriSpeech", "librispeech")
        for n, text in (
            (RATE, "ab cd"),
            (RATE // 2 + 77, "ba"),
            (RATE // 4, "far more letters than it has rows"),
            (900, ""),
        )
    ]
    device = torch.device("cpu")
    heard = hear(model.thinker.audio_tower, clips, Spelt(), device)  # pyright: ignore[reportArgumentType]
    assert [h.phones for h in heard] == [Spelt().of(["ba"]), Spelt().of(["ab", "cd"])]
    alone = hear(model.thinker.audio_tower, clips[:1], Spelt(), device)[0]  # pyright: ignore[reportArgumentType]
    assert alone.states.shape == heard[1].states.shape == (13, CONFIG.shape.d_model)
    np.testing.assert_allclose(alone.states.astype(np.float32), heard[1].states.astype(np.float32), atol=0.05)


def test_a_head_of_as_many_phones_is_taken_over_another_begins_anew(tmp_path: Path) -> None:
    save_weights(PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES).state_dict(), tmp_path)
    assert begin_with(PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES), tmp_path) == []
    assert begin_with(PocketASR(CONFIG.shape, CONFIG.regularisation), tmp_path) == []
    other = PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES + 1)
    assert begin_with(other, tmp_path) == ["phones.1.weight", "phones.1.bias"]


def test_a_checkpoint_keeps_the_head_where_pronunciations_stand_beside_it(tmp_path: Path) -> None:
    tiny_tokenizer(tmp_path / "tokenizer")
    weights = PocketASR(CONFIG.shape, CONFIG.regularisation, PHONES).state_dict()
    save(Speller(PHONES), list("abcde"), ["at", "bat"], tmp_path / "said.npz")
    save_checkpoint(
        "tiny", CONFIG.shape, weights, tmp_path / "tokenizer", tmp_path / "with",
        phones=(inner_layer(CONFIG.shape, CONFIG.regularisation), tmp_path / "said.npz"),
    )  # fmt: skip
    config = json.loads((tmp_path / "with" / "config.json").read_text())
    assert config["hearsay"]["phones"] == {"layer": 1, "frames": FRAMES_PER_ROW, "pronunciation": "pronunciation.npz"}
    assert (tmp_path / "with" / "pronunciation.npz").read_bytes() == (tmp_path / "said.npz").read_bytes()
    kept = load_weights(tmp_path / "with")
    assert kept["phones.1.weight"].shape == (FRAMES_PER_ROW * (PHONES + 1), CONFIG.shape.d_model)
    save_checkpoint("tiny", CONFIG.shape, weights, tmp_path / "tokenizer", tmp_path / "without")
    assert "phones" not in json.loads((tmp_path / "without" / "config.json").read_text())["hearsay"]
    assert not [k for k in load_weights(tmp_path / "without") if k.startswith("phones.")]
