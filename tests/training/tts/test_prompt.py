"""The layout of text and codes, position by position."""

from pathlib import Path

import numpy as np
import pytest

from tests.training.tts.shapes import CONFIG, tokenizer
from training.tts.prompt import IGNORE, codec_ids, lay_out
from training.tts.tokenizer import text_ids


def test_a_text_is_the_tokens_of_its_words(tmp_path: Path) -> None:
    """So a stream can be encoded word by word."""
    bpe = tokenizer(tmp_path)
    text = " the lamp, don't go! who is there?"
    words = [" the", " lamp,", " don't", " go!", " who", " is", " there?"]
    assert bpe.encode(text).ids == [i for word in words for i in bpe.encode(word).ids]


@pytest.mark.parametrize(("language", "before"), [(True, 9), (False, 8)])
def test_every_position_of_a_row(tmp_path: Path, language: bool, before: int) -> None:
    """Role, tags, speaker, then one text token and one frame a position; labels are one position ahead of frames."""
    text, ids = text_ids(tokenizer(tmp_path)), codec_ids(CONFIG)
    codes = np.arange(15, dtype=np.int16).reshape(5, 3)
    row = lay_out(codes, [7, 8, 9], "ben", text, ids, language=language)
    tags = (
        [ids.think, ids.think_bos, ids.language, ids.think_eos]
        if language
        else [ids.nothink, ids.think_bos, ids.think_eos]
    )
    assert row.text.tolist() == [
        *text.role,
        *[text.pad] * (before - 4),
        text.bos,
        7,
        8,
        9,
        text.eos,
        text.pad,
        text.pad,
    ]
    assert row.codec.tolist() == [-1, -1, -1, *tags, ids.speakers["ben"], ids.pad, ids.bos, 0, 3, 6, 9, 12]
    assert row.label.tolist() == [IGNORE] * before + [0, 3, 6, 9, 12, ids.eos]
    assert row.rest[row.frame].tolist() == codes[:, 1:].tolist()
    assert row.span == (before, before + 3)


def test_text_that_outlasts_the_speech_is_refused(tmp_path: Path) -> None:
    text, ids = text_ids(tokenizer(tmp_path)), codec_ids(CONFIG)
    with pytest.raises(ValueError, match="tokens: 4 for 3 frames"):
        lay_out(np.zeros((3, 3), np.int16), [1, 2, 3, 4], "ada", text, ids, language=True)
