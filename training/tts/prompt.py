"""The official streaming layout: every position is the sum of a text embedding and a codec embedding.

role (text only) · tags with <tts_pad> · speaker with <tts_pad> · <tts_text_bos> with codec pad · first text token
with codec bos; then text token i + 1 with frame i, <tts_text_eod> after the last text token, <tts_pad> from there
on. Position of codec bos predicts frame 0, position of frame i predicts frame i + 1 or the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.tts.config import Config
from training.tts.tokenizer import TextIds

LANGUAGE = "english"
IGNORE = -100
Place = tuple[int, int, int, int]
"""Where a speaker's utterances begin and how many frames they have; the end of one among them and its frames."""


@dataclass(frozen=True)
class CodecIds:
    """Control ids of the codec vocabulary; codes come before them."""

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
    """Ids for `config`: eight tags right after the codes, then the speakers in their order."""
    first = config.codec.codebook_size
    speakers = {name: first + 8 + i for i, name in enumerate(config.speakers)}
    return CodecIds(*(first + i for i in range(8)), speakers)


@dataclass(frozen=True)
class Row:
    """One utterance laid out, S positions. text, codec int16 [S] (codec: control id, or code 0 of the frame; -1: no
    codec embedding); rest int16 [S, K - 1] and frame bool [S] (position holds a frame); label int16 [S]; text_at
    float32 [S]: position whose text should be spoken (-1: none); span: first and last text position + 1; slot: the
    speaker's position; place: where the speaker is heard (references.py), None for one who has an id.
    """

    text: NDArray[np.int16]
    codec: NDArray[np.int16]
    rest: NDArray[np.int16]
    frame: NDArray[np.bool_]
    label: NDArray[np.int16]
    text_at: NDArray[np.float32]
    span: tuple[int, int]
    slot: int
    place: Place | None = None


def head(text: TextIds, codec: CodecIds, speaker: str, *, language: bool) -> tuple[list[int], list[int]]:
    """Text and codec ids of the positions before the first text token."""
    known = [codec.think, codec.think_bos, codec.language, codec.think_eos]
    tags = known if language else [codec.nothink, codec.think_bos, codec.think_eos]
    control = [*tags, codec.speakers.get(speaker, -1), codec.pad]
    return [*text.role, *[text.pad] * (len(control) - 1), text.bos], [-1] * len(text.role) + control


def lay_out(
    codes: NDArray[np.int16], tokens: Sequence[int], speaker: str, text: TextIds, codec: CodecIds, *, language: bool
) -> Row:
    """codes int16 [n, K] and the text's `tokens` -> a row of len(head) + n + 1 positions. ValueError where the text
    does not end before the speech: the layout has one text token a frame.
    """
    before_text, before_codec = head(text, codec, speaker, language=language)
    start, n, length = len(before_text), len(codes), len(tokens)
    if length + 1 > n + 1:
        raise ValueError(f"tokens: {length} for {n} frames; the streaming layout takes one token a frame")
    size = start + n + 1
    text_row, codec_row = np.full(size, text.pad, np.int16), np.full(size, codec.pad, np.int16)
    rest, frame = np.zeros((size, codes.shape[1] - 1), np.int16), np.zeros(size, np.bool_)
    label, text_at = np.full(size, IGNORE, np.int16), np.full(size, -1.0, np.float32)
    text_row[:start], codec_row[:start] = before_text, before_codec
    text_row[start : start + length] = tokens
    text_row[start + length] = text.eos
    codec_row[start], codec_row[start + 1 :] = codec.bos, codes[:, 0]
    rest[start + 1 :], frame[start + 1 :] = codes[:, 1:], True
    label[start:-1], label[-1] = codes[:, 0], codec.eos
    text_at[start:] = start + np.arange(n + 1) / n * length
    return Row(text_row, codec_row, rest, frame, label, text_at, (start, start + length), start - 2)
