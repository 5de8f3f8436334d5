"""Laid-out rows of a run on the device, in buckets of a few lengths, so that a step is one of a few captured graphs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.tts.codes import Codes
from training.tts.config import Config
from training.tts.prompt import IGNORE, CodecIds, Row, codec_ids, lay_out
from training.tts.text import speakable
from training.tts.tokenizer import TextIds, text_ids


class Batch(NamedTuple):
    """B rows of S positions, as `prompt.Row` describes them: text, codec, label int64 [B, S]; rest int64 [B, S, K -
    1]; frame bool [B, S]; text_at float32 [B, S]; span float32 [B, 2]; chosen int64 [F]: label positions the
    predictor learns from.
    """

    text: Tensor
    codec: Tensor
    rest: Tensor
    frame: Tensor
    label: Tensor
    text_at: Tensor
    span: Tensor
    chosen: Tensor

    def copy_(self, other: "Batch") -> None:
        for mine, theirs in zip(self, other, strict=True):
            mine.copy_(theirs)


class Bucket:
    """Rows of up to `length` positions, padded, kept small (int16) on the device."""

    def __init__(self, rows: Sequence[Row], length: int, text: TextIds, codec: CodecIds, device: torch.device) -> None:
        n, books = len(rows), rows[0].rest.shape[1]
        arrays = [
            np.full((n, length), text.pad, np.int16), np.full((n, length), codec.pad, np.int16),
            np.zeros((n, length, books), np.int16), np.zeros((n, length), np.bool_),
            np.full((n, length), IGNORE, np.int16), np.full((n, length), -1.0, np.float32),
            np.zeros((n, 2), np.float32),
        ]  # fmt: skip
        for i, row in enumerate(rows):
            for array, value in zip(
                arrays[:-1], (row.text, row.codec, row.rest, row.frame, row.label, row.text_at), strict=True
            ):
                array[i, : len(value)] = value
            arrays[-1][i] = row.span
        self._tensors = [torch.from_numpy(a).to(device) for a in arrays]
        self.length, self.rows = length, n

    def batch(self, index: Tensor, frames: int | None) -> Batch:
        """Rows int64 [B]; `frames` positions drawn for the predictor (None: all that hold one)."""
        text, codec, rest, frame, label, text_at, span = (t[index] for t in self._tensors)
        holds = frame[:, 1:].flatten()  # the position before a frame predicts it
        if frames is None:
            chosen = holds.nonzero()[:, 0]
        else:
            chosen = torch.multinomial(holds.float(), frames, replacement=True)
        return Batch(text.long(), codec.long(), rest.long(), frame, label.long(), text_at, span, chosen)

    def draw(self, positions: int, frames: int) -> Batch:
        count = max(1, positions // self.length)
        device = self._tensors[0].device
        return self.batch(torch.randint(0, self.rows, (count,), device=device), frames)


def make_rows(
    codes: Codes,
    config: Config,
    tokenizer: Tokenizer,
    *,
    held_out: bool,
    speakers: set[str] | None = None,
) -> list[Row]:
    """Rows of the (not) held-out utterances of `speakers` (None: all) that fit the longest bucket, whose text can be
    read and ends before the speech does. Every second row names its language.
    """
    ids = codec_ids(config)
    named = set(ids.speakers) if speakers is None else speakers & set(ids.speakers)
    wanted = [i for i, speaker in enumerate(codes.speaker) if speaker in named and codes.held_out[i] == held_out]
    return list(laid_out(codes, wanted, config, tokenizer).values())


def laid_out(codes: Codes, wanted: Sequence[int], config: Config, tokenizer: Tokenizer) -> dict[int, Row]:
    """Rows of those of the `wanted` utterances that fit, as `make_rows` says, by their numbers."""
    text, ids = text_ids(tokenizer), codec_ids(config)
    longest = config.talker_training.lengths[-1]
    encoded = [tokens.ids for tokens in tokenizer.encode_batch([speakable(codes.text[i]) for i in wanted])]
    rows: dict[int, Row] = {}
    for i, tokens in zip(wanted, encoded, strict=True):
        frames = codes.of(i)
        if tokens and len(tokens) <= len(frames) and len(frames) + 10 <= longest:
            rows[i] = lay_out(frames, tokens, codes.speaker[i], text, ids, language=len(rows) % 2 == 0)
    return rows


def make_buckets(rows: Sequence[Row], config: Config, tokenizer: Tokenizer, device: torch.device) -> list[Bucket]:
    """One bucket a configured length, empty ones left out."""
    lengths = config.talker_training.lengths
    out: list[Bucket] = []
    for low, high in zip((0, *lengths), lengths, strict=False):
        inside = [row for row in rows if low < len(row.text) <= high]
        if inside:
            out.append(Bucket(inside, high, text_ids(tokenizer), codec_ids(config), device))
    return out
