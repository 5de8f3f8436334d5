"""Lines: text without sound fits its rows, and the decoder reads it from left to right."""

import random
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.lines import Lines
from training.asr.model import PocketASR
from training.asr.prompt import Prompt

from .shapes import CONFIG, SENTENCES, tiny_tokenizer


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Prompt:
    return Prompt(tiny_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@pytest.mark.parametrize("width", [30, 64])
def test_text_and_end_are_to_be_predicted_behind_the_template(prompt: Prompt, width: int) -> None:
    ids, mask = Lines(prompt, SENTENCES, 200, width, random.Random(1)).take()
    head = [*prompt.prefix(), *prompt.suffix, *prompt.english]
    texts: set[str] = set()
    for row, asked in zip(ids, mask, strict=True):
        assert list(row[: len(head)]) == head and not asked[: len(head)].any()
        count = int(asked.sum())
        assert count > 1 and asked[len(head) : len(head) + count].all() and row[len(head) + count - 1] == prompt.end
        assert (row[len(head) + count :] == prompt.pad).all()
        texts.add(prompt.text(list(row[len(head) : len(head) + count])))
    assert len(texts) > 20
    if width == 64:
        assert texts & set(SENTENCES)


def test_no_lines_are_an_empty_batch_and_no_room_is_an_error(prompt: Prompt) -> None:
    ids, mask = Lines(prompt, [], 0, 64, random.Random(1)).take()
    assert ids.shape == mask.shape == (0, 64)
    with pytest.raises(ValueError, match="line_width: 20 ids"):
        Lines(prompt, SENTENCES, 4, 20, random.Random(1))
    with pytest.raises(ValueError, match="no sentences"):
        Lines(prompt, [], 4, 64, random.Random(1))


def test_a_run_without_lines_makes_no_language_model() -> None:
    assert CONFIG.language_model
    assert not replace(CONFIG, batches=replace(CONFIG.batches, lines=0)).language_model
    assert not replace(CONFIG, regularisation=replace(CONFIG.regularisation, lines=0.0)).language_model


def test_the_decoder_reads_lines_from_left_to_right(prompt: Prompt) -> None:
    torch.manual_seed(0)
    model = PocketASR(CONFIG.shape).eval()
    ids = torch.from_numpy(Lines(prompt, SENTENCES, 4, 64, random.Random(2)).take()[0])
    with torch.no_grad():
        before = model.read(ids)
        ids[:, 40:] = 7
        after = model.read(ids)
    assert before.shape == (4, 63, CONFIG.shape.vocab)
    np.testing.assert_allclose(before[:, :40], after[:, :40], atol=1e-5)
    assert not np.allclose(before[:, 41:], after[:, 41:], atol=1e-3)
