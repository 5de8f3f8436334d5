"""Laid-out rows of a run on the device, in buckets of a few lengths, so that a step is one of a few captured graphs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.tts.codes import Codes
from training.tts.config import Config, TalkerTraining
from training.tts.prompt import IGNORE, CodecIds, Row, codec_ids, lay_out
from training.tts.references import References
from training.tts.speaker_encoder import like_recordings
from training.tts.text import speakable
from training.tts.tokenizer import TextIds, text_ids


class Batch(NamedTuple):
    """B rows of S positions, as `prompt.Row` describes them: text, codec, label int64 [B, S]; rest int64 [B, S, K -
    1]; frame bool [B, S]; text_at float32 [B, S]; span float32 [B, 2]; slot int64 [B]; chosen int64 [F]: label
    positions the predictor learns from; cloned int64 [C]: rows whose speakers are heard, in heard float32 [C, samples].
    """

    text: Tensor
    codec: Tensor
    rest: Tensor
    frame: Tensor
    label: Tensor
    text_at: Tensor
    span: Tensor
    slot: Tensor
    chosen: Tensor
    cloned: Tensor
    heard: Tensor

    def copy_(self, other: "Batch") -> None:
        for mine, theirs in zip(self, other, strict=True):
            mine.copy_(theirs)


class Bucket:
    """Rows of up to `length` positions, padded, kept small (int16) on the device, first those whose speakers have ids.
    references: where the others are heard.
    """

    def __init__(
        self, rows: Sequence[Row], length: int, text: TextIds, codec: CodecIds, device: torch.device,
        references: References | None = None,
    ) -> None:  # fmt: skip
        rows = sorted(rows, key=lambda row: row.place is not None)
        n, books = len(rows), rows[0].rest.shape[1]
        arrays = [
            np.full((n, length), text.pad, np.int16), np.full((n, length), codec.pad, np.int16),
            np.zeros((n, length, books), np.int16), np.zeros((n, length), np.bool_),
            np.full((n, length), IGNORE, np.int16), np.full((n, length), -1.0, np.float32),
            np.array([row.span for row in rows], np.float32), np.array([row.slot for row in rows]),
        ]  # fmt: skip
        for i, row in enumerate(rows):
            for array, value in zip(
                arrays[:6], (row.text, row.codec, row.rest, row.frame, row.label, row.text_at), strict=True
            ):
                array[i, : len(value)] = value
        self._tensors = [torch.from_numpy(a).to(device) for a in arrays]
        self.length, self.rows = length, n
        places = [row.place for row in rows if row.place is not None]
        self._own, self._references = n - len(places), references
        self._places = torch.tensor(places, dtype=torch.long, device=device).view(-1, 4)

    def batch(self, index: Tensor, frames: int | None, cloned: Tensor | None = None) -> Batch:
        """Rows int64 [B]; `frames` positions drawn for the predictor (None: all that hold one). cloned: those of the
        B whose speakers are heard, if that is known.
        """
        text, codec, rest, frame, label, text_at, span, slot = (t[index] for t in self._tensors)
        holds = frame[:, 1:].flatten()  # the position before a frame predicts it
        if frames is None:
            chosen = holds.nonzero()[:, 0]
        else:
            chosen = torch.multinomial(holds.float(), frames, replacement=True)
        if cloned is None:
            cloned = (index >= self._own).nonzero()[:, 0]
        heard = text_at.new_zeros(0, 0)
        if len(cloned):
            assert self._references is not None
            heard = self._references.draw(self._places[index[cloned] - self._own])
        return Batch(
            text.long(), codec.long(), rest.long(), frame, label.long(), text_at, span, slot, chosen, cloned, heard
        )

    def draw(self, training: TalkerTraining) -> Batch:
        """Rows for a step, always as many of which the speakers are heard, these in recordings like other people's."""
        count, device = max(1, training.positions // self.length), self._places.device
        share = training.cloned_rows if self._own else 1.0
        heard = round(share * count) if len(self._places) else 0
        of_each = ((0, self._own, count - heard), (self._own, self.rows, heard))
        index = torch.cat([torch.randint(low, high, (n,), device=device) for low, high, n in of_each if n])
        order = torch.randperm(count, device=device)  # in the place of the nth stands order[n]
        made = self.batch(index[order], training.predictor_frames, order.argsort()[count - heard :])
        return made._replace(heard=like_recordings(made.heard)) if heard else made


def make_rows(
    codes: Codes,
    config: Config,
    tokenizer: Tokenizer,
    *,
    held_out: bool,
    references: References | None = None,
) -> list[Row]:
    """Rows of the (not) held-out utterances that fit, as `laid_out` says."""
    wanted = [i for i, held in enumerate(codes.held_out) if held == held_out]
    return list(laid_out(codes, wanted, config, tokenizer, references).values())


def laid_out(
    codes: Codes, wanted: Sequence[int], config: Config, tokenizer: Tokenizer, references: References | None = None
) -> dict[int, Row]:
    """Rows, by their numbers, of those of the `wanted` utterances that fit the longest bucket, whose text can be read
    and ends before the speech does, and whose speaker has an id or is heard in `references`. Every second row names
    its language.
    """
    text, ids = text_ids(tokenizer), codec_ids(config)
    longest = config.talker_training.lengths[-1]
    encoded = [tokens.ids for tokens in tokenizer.encode_batch([speakable(codes.text[i]) for i in wanted])]
    rows: dict[int, Row] = {}
    for i, tokens in zip(wanted, encoded, strict=True):
        frames, speaker, place = codes.of(i), codes.speaker[i], None
        if speaker not in ids.speakers:
            place = references and references.place(speaker, bool(codes.held_out[i]), codes.text[i])
            if place is None:
                continue
        if tokens and len(tokens) <= len(frames) and len(frames) + 10 <= longest:
            row = lay_out(frames, tokens, speaker, text, ids, language=len(rows) % 2 == 0)
            rows[i] = replace(row, place=place)
    return rows


def make_buckets(
    rows: Sequence[Row], config: Config, tokenizer: Tokenizer, device: torch.device,
    references: References | None = None,
) -> list[Bucket]:  # fmt: skip
    """One bucket a configured length, empty ones left out."""
    lengths = config.talker_training.lengths
    out: list[Bucket] = []
    for low, high in zip((0, *lengths), lengths, strict=False):
        inside = [row for row in rows if low < len(row.text) <= high]
        if inside:
            out.append(Bucket(inside, high, text_ids(tokenizer), codec_ids(config), device, references))
    return out
