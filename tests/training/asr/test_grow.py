"""A grown model hears at first what the smaller one heard."""

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tokenizers import Tokenizer

from training.asr.grow import grown
from training.asr.model import Outputs, PocketASR
from training.asr.spectrogram import past_end
from training.asr.tokenizer import train_tokenizer

from .shapes import CONFIG, SENTENCES, tiny_tokenizer

DEEPER = replace(CONFIG.shape, encoder_layers=3, decoder_layers=5)
EMBEDDING = "thinker.model.embed_tokens.weight"


@pytest.fixture(scope="module")
def small() -> PocketASR:
    torch.manual_seed(5)
    made = PocketASR(CONFIG.shape).eval()
    torch.nn.init.normal_(made.ctc.bias)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old/ and new/: a tokenizer of lower-case sentences, and a larger one of written text."""
    made = tmp_path_factory.mktemp("tokenizers")
    tiny_tokenizer(made / "old")
    train_tokenizer([s.capitalize() + "." for s in SENTENCES], 352, made / "new")
    return made


def heard(model: PocketASR, ids: list[int]) -> Outputs:
    """Of two rows of noise, with `ids` as prompt and as text."""
    frames = torch.tensor([800, 455])
    mel = past_end(torch.randn(2, 128, 800, generator=torch.Generator().manual_seed(1)), frames)
    row = torch.tensor([ids] * 2)
    with torch.no_grad():
        return model(mel, frames, row, torch.tensor([len(ids)] * 2), row)


def test_added_layers_change_nothing(small: PocketASR, folder: Path) -> None:
    file = folder / "old" / "tokenizer.json"
    large = PocketASR(DEEPER).eval()
    large.load_state_dict(grown(small.state_dict(), DEEPER, file, file))
    before, after = heard(small, [5, 260, 261, 262]), heard(large, [5, 260, 261, 262])
    torch.testing.assert_close(after.logits, before.logits)
    torch.testing.assert_close(after.ctc, before.ctc)


def test_tokens_that_both_know_score_as_before(small: PocketASR, folder: Path) -> None:
    files = [folder / name / "tokenizer.json" for name in ("old", "new")]
    old, new = (Tokenizer.from_file(str(file)).get_vocab(with_added_tokens=True) for file in files)
    shape = replace(DEEPER, vocab=352)
    large = PocketASR(shape).eval()
    large.load_state_dict(grown(small.state_dict(), shape, *files))
    shared = sorted(old.keys() & new.keys())
    assert len(shared) > 260
    mine, theirs = [old[t] for t in shared], [new[t] for t in shared]
    before, after = heard(small, mine[:40]), heard(large, theirs[:40])
    torch.testing.assert_close(after.logits[..., theirs], before.logits[..., mine])
    torch.testing.assert_close(after.ctc[..., [*theirs, -1]], before.ctc[..., [*mine, -1]])


def test_a_new_token_begins_as_the_mean_of_its_spelling(small: PocketASR, folder: Path) -> None:
    files = [folder / name / "tokenizer.json" for name in ("old", "new")]
    old, new = (Tokenizer.from_file(str(file)) for file in files)
    weights, shape = small.state_dict(), replace(DEEPER, vocab=352)
    found = grown(weights, shape, *files)
    fresh = new.get_vocab(with_added_tokens=True).keys() - old.get_vocab(with_added_tokens=True).keys()
    spelled = {t: old.encode(new.decode([new.token_to_id(t)]).lower()).ids for t in fresh}
    assert any(len(ids) > 1 for ids in spelled.values())
    for token, ids in spelled.items():
        row = new.token_to_id(token)
        torch.testing.assert_close(found[EMBEDDING][row], weights[EMBEDDING][ids].mean(0))
        torch.testing.assert_close(found["ctc.weight"][row], weights["ctc.weight"][ids[0]])
        assert float(found["ctc.bias"][row]) == -6, "not heard before it is learnt"


def test_a_vocabulary_of_another_size_is_refused(small: PocketASR, folder: Path) -> None:
    files = [folder / name / "tokenizer.json" for name in ("old", "new")]
    with pytest.raises(ValueError, match="352 tokens, must be 320"):
        grown(small.state_dict(), DEEPER, *files)
