"""What takes are judged by sounds as the shipped decoder does, on every device and in every company."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG
from training.tts.codec import Codec, save_codec
from training.tts.config import load_config
from training.tts.shipped import shipped
from training.tts.sound import Decoded, Shipped, at_16k

MODEL = Path("models/pocket-tts-en")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def utterances() -> list[NDArray[np.int16]]:
    with np.load(MODEL / "held-out.npz") as z:
        codes = z["codes"][:90].astype(np.int16)
    return [codes[:60], codes[60:], codes[:30]]


def test_the_graph_is_heard_up_to_the_last_frame(utterances: list[NDArray[np.int16]]) -> None:
    whole, _, half = Shipped(MODEL)(utterances)
    assert len(whole) == 1280 * 60 and len(half) == 1280 * 30 and np.abs(whole).max() > 1000
    inner = slice(0, 1280 * 29)  # resampling looks ahead a little
    assert np.abs(whole[inner].astype(int) - half[inner]).max() <= 8


def test_graph_and_decoder_sound_alike(tmp_path: Path, utterances: list[NDArray[np.int16]]) -> None:
    shipped(MODEL, load_config(Path("training/tts/pocket-tts-en-7.toml")), tmp_path)
    for a, b in zip(Shipped(MODEL)(utterances), Decoded(tmp_path / "codec.safetensors", CPU)(utterances), strict=True):
        apart = a.astype(float) - b
        assert len(a) == len(b) and np.sqrt((apart**2).mean() / (a.astype(float) ** 2).mean()) < 0.02


def test_company_is_not_heard(tmp_path: Path) -> None:
    torch.manual_seed(4)
    save_codec(Codec(CONFIG.codec), tmp_path / "codec.safetensors")
    sound = Decoded(tmp_path / "codec.safetensors", CPU)
    books, size = CONFIG.codec.num_quantizers, CONFIG.codec.codebook_size
    some = [np.random.default_rng(n).integers(0, size, (n, books)).astype(np.int16) for n in (7, 1, 12, 4)]
    for together, codes in zip(sound(some), some, strict=True):
        alone = sound([codes])[0]
        assert len(together) == 1280 * len(codes) and np.abs(together.astype(int) - alone).max() <= 1
    assert sound([]) == []


@pytest.mark.parametrize(("hertz", "kept"), [(0, 1.0), (440, 1.0), (6000, 1.0), (10000, 0.0), (11500, 0.0)])
def test_resampling_keeps_what_16_khz_can_hold(hertz: int, kept: float) -> None:
    def tone(rate: int) -> torch.Tensor:
        return 0.5 * torch.cos(2 * torch.pi * hertz * torch.arange(rate // 2, dtype=torch.float64) / rate).float()

    heard = at_16k(tone(24000)[None, None], [12000])[0]
    assert heard.shape == (8000,)
    assert (heard - kept * tone(16000))[100:-100].abs().max() < 0.01
