"""The official streaming layout, in which every position is the sum of a text embedding and a codec embedding.

The positions are: the role (text only); tags with <tts_pad>; the speaker with <tts_pad>; <tts_text_bos> with codec pad;
the first text token with codec bos; then text token i + 1 with frame i, <tts_text_eod> after the last text token, and
<tts_pad> from there on. The position of codec bos predicts frame 0, and the position of frame i predicts frame i + 1 or
the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.tts.config import Config
from training.tts.tokenizer import TextIds

LANGUAGE = "english"
Place = tuple[int, int, int, int]
"""Where a speaker's utterances begin and how many frames they have; where one among them ends, counted from there, and
its frames."""


@dataclass(frozen=True)
class CodecIds:
    """The control ids of the codec vocabulary. Codes come before them."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int
    language: int
    speakers: dict[str, int]


def codec_ids(config: Config) -> CodecIds:
    """Give the ids for `config`: eight tags right after the codes, then the speakers in their order."""
    first = config.codec.codebook_size
    speakers = {name: first + 8 + i for i, name in enumerate(config.speakers)}
    return CodecIds(*(first + i for i in range(8)), speakers)


@dataclass(frozen=True)
class Row:
    """One utterance laid out on S positions. text: int16 [S]; codes: int16 [S, K], those of a position that holds a
    frame, else a control id and zeros (-1: no codec embedding); begin: the first position of text and frames; place:
    where the speaker is heard (references.py), None for one who has an id."""

    text: NDArray[np.int16]
    codes: NDArray[np.int16]
    begin: int
    tokens: int
    frames: int
    place: Place | None = None


def head(text: TextIds, codec: CodecIds, speaker: str, *, language: bool) -> tuple[list[int], list[int]]:
    """Give the text and codec ids of the positions before the first text token."""
    known = [codec.think, codec.think_bos, codec.language, codec.think_eos]
    tags = known if language else [codec.nothink, codec.think_bos, codec.think_eos]
    control = [*tags, codec.speakers.get(speaker, -1), codec.pad]
    return [*text.role, *[text.pad] * (len(control) - 1), text.bos], [-1] * len(text.role) + control


def lay_out(
    codes: NDArray[np.int16], tokens: Sequence[int], speaker: str, text: TextIds, codec: CodecIds, *, language: bool
) -> Row:
    """Lay out codes int16 [n, K] and the text's `tokens` in a row of len(head) + n + 1 positions.

    Raises:
        ValueError: the text does not end before the speech; the layout has one text token for each frame.
    """
    before_text, before_codec = head(text, codec, speaker, language=language)
    start, n, length = len(before_text), len(codes), len(tokens)
    if length + 1 > n + 1:
        raise ValueError(f"tokens: {length} for {n} frames; the streaming layout takes one token a frame")
    size = start + n + 1
    text_row, codes_row = np.full(size, text.pad, np.int16), np.zeros((size, codes.shape[1]), np.int16)
    text_row[:start], codes_row[:start, 0] = before_text, before_codec
    text_row[start : start + length] = tokens
    text_row[start + length] = text.eos
    codes_row[start, 0], codes_row[start + 1 :] = codec.bos, codes
    return Row(text_row, codes_row, start, length, n)
