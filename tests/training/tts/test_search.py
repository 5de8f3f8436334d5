"""Searched codes: nearer than those begun from, the same every time, in their books, the semantic ones as they were."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor

from tests.training.tts.shapes import CONFIG, tone_shard
from training.tts import search as module
from training.tts.codec import Codec
from training.tts.search import Likeness, Search

TRAINING = replace(CONFIG.codec_training, envelope_weight=10.0, loudness_weight=2.0)
SIZE, BOOKS = CONFIG.codec.codebook_size, CONFIG.codec.num_quantizers


def small() -> Codec:
    torch.manual_seed(0)
    return Codec(CONFIG.codec).eval()


def decoded(codec: Codec, frames: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Codes int64 [1, K, T], and the sound of them with three frames in four changed in the acoustic books."""
    random = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, SIZE, (1, BOOKS, frames), generator=random)
    other = torch.where(torch.rand(1, 1, frames, generator=random) < 0.75, codes.flip(2), codes)
    other[:, :1] = codes[:, :1]
    with torch.no_grad():
        return codes, codec.decoder(other)


def test_found_codes_are_nearer_and_in_their_books() -> None:
    codec = small()
    codes, wave = decoded(codec, 12)
    kept = codes.clone()
    found = Search(codec, TRAINING, 30)(wave, codes)
    assert found.distance < 0.6 * found.given
    with torch.no_grad():
        decoder = codec.decoder
        heard = [Likeness(TRAINING)(decoder(c), wave).item() for c in (codes, found.codes)]
    assert heard == pytest.approx([found.given, found.distance], rel=1e-4)
    assert found.codes.shape == codes.shape and found.codes.dtype == torch.int64
    assert 0 <= int(found.codes.min()) and int(found.codes.max()) < SIZE
    assert torch.equal(found.codes[:, :1], codes[:, :1]) and torch.equal(codes, kept)


def test_the_same_search_finds_the_same_and_leaves_the_codec_alone() -> None:
    codec = small()
    before = {name: value.clone() for name, value in codec.state_dict().items()}
    codes, wave = decoded(codec, 12)
    first = Search(codec, TRAINING, 12)(wave, codes)
    torch.manual_seed(99)
    torch.rand(5)
    again = Search(codec, TRAINING, 12)(wave, codes)
    assert torch.equal(first.codes, again.codes) and first.distance == again.distance
    assert not torch.equal(first.codes, codes)
    assert all(torch.equal(value, before[name]) for name, value in codec.state_dict().items())
    assert all(p.grad is None for p in codec.parameters())


@pytest.mark.parametrize("rate", [0.0, 0.1, 1e4])
def test_codes_that_are_right_stay_and_a_wild_rate_does_no_harm(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is the nearest that was seen, the codes begun from among it."""
    monkeypatch.setattr(module, "_RATE", rate)
    codec = small()
    codes, _ = decoded(codec, 8)
    with torch.no_grad():
        wave = codec.decoder.vocode(codec.decoder.latents(codec.decoder.quantizer.decode(codes)))
    found = Search(codec, TRAINING, 4)(wave, codes)
    assert torch.equal(found.codes, codes) and found.distance == found.given < 0.1


def test_a_long_recording_is_searched_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each no longer than the limit, on what was found before it; all of them change, and the whole is nearer."""
    monkeypatch.setattr(module, "STRETCH", 7)
    codec = small()
    lengths: list[int] = []
    vocode = codec.decoder.vocode

    def counted(h: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            lengths.append(h.shape[2])
        return vocode(h)

    monkeypatch.setattr(codec.decoder, "vocode", counted)
    codes, wave = decoded(codec, 20)
    found = Search(codec, TRAINING, 8)(wave, codes)
    assert max(lengths) == 7 + 4 and len(lengths) == 3 * 9
    assert found.distance < found.given
    assert all((found.codes != codes)[..., start : start + 6].any() for start in (0, 6, 13))


@pytest.mark.parametrize("stretch", [128, 7])
def test_no_codes_are_further_than_those_given(stretch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STRETCH", stretch)
    codec = small()
    speech = torch.from_numpy(tone_shard("slt", count=1, frames=10).wave).float()[None, None] / 32768
    for seed in range(3):
        codes, _ = decoded(codec, 10, seed)
        search = Search(codec, TRAINING, 2)
        found = search(speech, codes)
        assert search.distance(found.codes, speech) == found.distance <= found.given


def test_two_frames_are_enough() -> None:
    """The distance of envelopes takes six: silence stands behind them."""
    codec = small()
    codes, wave = decoded(codec, 2)
    found = Search(codec, TRAINING, 3)(wave, codes)
    assert found.codes.shape == codes.shape and found.distance <= found.given


def test_weights_choose_the_distance() -> None:
    made, wave = torch.zeros(1, 1, 20 * 1920), torch.from_numpy(tone_shard("slt", count=1).wave).float()[None, None]
    wave = wave / 32768
    parts = [{"mel_weight": 15.0}, {"envelope_weight": 10.0}, {"loudness_weight": 2.0}]
    none = replace(TRAINING, mel_weight=0.0, envelope_weight=0.0, loudness_weight=0.0)
    alone = [Likeness(replace(none, **part))(made, wave).item() for part in parts]
    assert min(alone) > 0 and Likeness(TRAINING)(made, wave).item() == pytest.approx(sum(alone), rel=1e-5)
    with pytest.raises(ValueError, match="all 0"):
        Likeness(none)


def test_what_does_not_fit_is_named() -> None:
    codec = small()
    codes, wave = decoded(codec, 6)
    search = Search(codec, TRAINING, 1)
    with pytest.raises(ValueError, match="search: 0 steps, must be at least 1"):
        Search(codec, TRAINING, 0)
    with pytest.raises(ValueError, match=r"codes \[1, 2, 6\], must be \[1, 3, 1 to 1500 frames\]"):
        search(wave, codes[:, :2])
    with pytest.raises(ValueError, match=r"wave \[1, 1, 9600\], must be \[1, 1, 11520\]"):
        search(wave[..., :-1920], codes)
    with pytest.raises(ValueError, match=r"must lie in 0\.\.31"):
        search(wave, codes + 20)
    with pytest.raises(ValueError, match="1500 frames"):
        search(wave, codes.repeat(1, 1, 251))
