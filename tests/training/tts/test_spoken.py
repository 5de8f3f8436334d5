"""Codes that a talker makes of many texts at a time: those of the layout it was trained in, of every text in turn."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, FICTION, tokenizer
from training.tts.prompt import codec_ids, lay_out
from training.tts.spoken import say_all, speak
from training.tts.talker import Talker
from training.tts.tokenizer import text_ids


@pytest.fixture
def talker() -> Talker:
    torch.manual_seed(5)
    talker = Talker(CONFIG.talker, CONFIG.codec).eval()
    with torch.no_grad():
        for weight in talker.parameters():
            weight.mul_(3.0)  # a fresh one's codes are nearly all alike
        talker.codec_head.weight[codec_ids(CONFIG).eos] = 0.0
    return talker


@torch.inference_mode()
def test_codes_are_the_likeliest_of_the_layout_trained_on(talker: Talker, tmp_path: Path) -> None:
    own, text, codec = tokenizer(tmp_path), text_ids(tokenizer(tmp_path)), codec_ids(CONFIG)
    found = speak(CONFIG, talker, own, FICTION, "kathleen", 0.0, 0.0)
    assert len(found) == len(FICTION)
    for said, codes in zip(FICTION, found, strict=True):
        tokens = own.encode(said).ids
        assert len(codes) >= len(tokens) and len(np.unique(codes[:, 0])) > 1
        row = lay_out(codes, tokens, "kathleen", text, codec, language=True)
        control = torch.from_numpy(row.codec).long()
        x = talker.embed_text(torch.from_numpy(row.text).long())
        x = x + talker.model.codec_embedding(control.clamp(min=0)) * (control >= 0)[:, None]
        x = x + talker.embed_rest(torch.from_numpy(row.rest).long()) * torch.from_numpy(row.frame)[:, None]
        hidden = talker.backbone(x[None])[0, row.span[0] : -1]
        logits = talker.codec_head(hidden)
        logits[:, talker.size : codec.eos] = logits[:, codec.eos + 1 :] = -torch.inf
        first = torch.from_numpy(codes[:, 0]).long()
        alike = torch.cat(
            [(logits.argmax(1) == first)[:, None], talker.likeliest(hidden, first) == torch.from_numpy(codes[:, 1:])], 1
        )
        assert alike.float().mean() > 0.98


def test_every_text_is_said_once_by_the_voices_in_turn(talker: Talker, tmp_path: Path) -> None:
    texts = [f"text number {i}." for i in range(7)]
    made = say_all(CONFIG, talker, tokenizer(tmp_path), iter(texts), hours=1.0, seconds=600, batch=3)
    assert made.text == texts
    one, other = CONFIG.voices.speakers[:2]
    assert made.speaker == [one] * 3 + [other] * 3 + [one]
    assert made.lengths.sum() == len(made.codes) and (made.codes < CONFIG.codec.codebook_size).all()
    with pytest.raises(ValueError, match="no texts"):
        say_all(CONFIG, talker, tokenizer(tmp_path), iter([]), hours=1.0, seconds=600)
