"""The layout of text and codes, position by position."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, layout, tokenizer
from training.tts.prompt import codec_ids, lay_out
from training.tts.rows import IGNORE, Bucket
from training.tts.tokenizer import text_ids


def test_a_text_is_the_tokens_of_its_words(tmp_path: Path) -> None:
    """The pieces of a text are those of its words, so that a stream can be encoded word by word."""
    bpe = tokenizer(tmp_path)
    text = " the lamp, don't go! who is there?"
    words = [" the", " lamp,", " don't", " go!", " who", " is", " there?"]
    assert bpe.encode(text).ids == [i for word in words for i in bpe.encode(word).ids]


@pytest.mark.parametrize(("language", "before"), [(True, 9), (False, 8)])
def test_every_position_of_a_row(tmp_path: Path, language: bool, before: int) -> None:
    """The role, the tags and the speaker come first, then one text token and one frame for each position. Labels are
    one position ahead of frames."""
    made = layout(tmp_path)
    text, ids = made.text, made.codec
    codes = np.arange(15, dtype=np.int16).reshape(5, 3)
    row = lay_out(codes, [7, 8, 9], "ben", text, ids, language=language)
    named = [ids.think, ids.think_bos, ids.language, ids.think_eos]
    tags = named if language else [ids.nothink, ids.think_bos, ids.think_eos]
    said = [*text.role, *[text.pad] * (before - 4), text.bos, 7, 8, 9, text.eos, text.pad, text.pad]
    control = [-1, -1, -1, *tags, ids.speakers["ben"], ids.pad, ids.bos]
    assert row.text.tolist() == said and row.codes[:, 0].tolist() == [*control, 0, 3, 6, 9, 12]
    longer = len(said) + 4
    batch = Bucket(made, [row], longer).batch(torch.tensor([0]), None)
    assert batch.text[0].tolist() == [*said, *[text.pad] * 4]
    assert batch.codes[0].tolist() == [*([c, 0, 0] for c in control), *codes.tolist(), *[[ids.pad, 0, 0]] * 4]
    assert batch.frame[0].nonzero()[:, 0].tolist() == list(range(before + 1, before + 6))
    assert batch.label[0].tolist() == [*[IGNORE] * before, 0, 3, 6, 9, 12, ids.eos, *[IGNORE] * 4]
    spoken = [before + 3 * n / 5 for n in range(6)]
    assert batch.text_at[0].tolist() == pytest.approx([*[-1.0] * before, *spoken, *[-1.0] * 4])
    assert batch.span.tolist() == [[before, before + 3]] and batch.slot.tolist() == [before - 2]
    assert batch.chosen.tolist() == list(range(before, before + 5))


def test_text_that_outlasts_the_speech_is_refused(tmp_path: Path) -> None:
    text, ids = text_ids(tokenizer(tmp_path)), codec_ids(CONFIG)
    with pytest.raises(ValueError, match="tokens: 4 for 3 frames"):
        lay_out(np.zeros((3, 3), np.int16), [1, 2, 3, 4], "ada", text, ids, language=True)
