"""The laid-out rows of a run lie on the device, in buckets of a few lengths, so that a step is one of a few captured
graphs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from training.tts.config import Config, TalkerTraining
from training.tts.prompt import Row, codec_ids, lay_out
from training.tts.references import References
from training.tts.speaker_encoder import like_recordings
from training.tts.speech import Speech
from training.tts.tokenizer import text_ids

IGNORE = -100
STILL = 8
"""So many frames on end, .64 s, codebook 0 may stay at one entry. Kokoro's speech has four at most. Where it stays for
longer nothing is said, or the encoder has not understood what, and a talker that learns it falls silent."""
_OFTEN = 3
"""A row of our own voices is drawn at most so many times as often as the mean row of its bucket. Where they are few
(long rows are readers'), more would be memorised."""


class Batch(NamedTuple):
    """B rows of S positions.

    text: int64 [B, S]; codes: int64 [B, S, K] as in `prompt.Row`; frame: bool [B, S], whether the position holds a
    frame; label: int64 [B, S], code 0 of the frame that comes next, or the end; text_at: float32 [B, S], the position
    whose text should be spoken (-1: none); span: float32 [B, 2], first and last text position + 1; slot: int64 [B], the
    speaker's position; chosen: int64 [F], label positions that the predictor learns from; cloned: int64 [C], rows whose
    speakers are heard, in heard: float32 [C, samples].
    """

    text: Tensor
    codes: Tensor
    frame: Tensor
    label: Tensor
    text_at: Tensor
    span: Tensor
    slot: Tensor
    chosen: Tensor
    cloned: Tensor
    heard: Tensor


class Bucket:
    """Rows of up to `length` positions, padded. They are kept small (int16) on the device, and those whose speakers
    have ids come first."""

    def __init__(self, layout: "Layout", rows: Sequence[Row], length: int) -> None:
        rows = sorted(rows, key=lambda row: row.place is not None)
        text = np.full((len(rows), length), layout.text.pad, np.int16)
        codes = np.zeros((len(rows), length, rows[0].codes.shape[1]), np.int16)
        codes[:, :, 0] = layout.codec.pad
        for i, row in enumerate(rows):
            text[i, : len(row.text)], codes[i, : len(row.text)] = row.text, row.codes
        device = layout.references.device
        self._text, self._codes = torch.from_numpy(text).to(device), torch.from_numpy(codes).to(device)
        self._extent = torch.tensor([(row.begin, row.tokens, row.frames) for row in rows], device=device)
        self.length, self.rows = length, len(rows)
        places = [row.place for row in rows if row.place is not None]
        self._own, self._references, self._end = len(rows) - len(places), layout.references, layout.codec.eos
        self._places = torch.tensor(places, dtype=torch.long, device=device).view(-1, 4)

    def batch(self, index: Tensor, frames: int | None, cloned: Tensor | None = None) -> Batch:
        """Give the rows int64 [B]. frames: how many positions are drawn for the predictor (None: all that hold one);
        cloned: those of the B rows whose speakers are heard, if that is known."""
        text, codes = self._text[index].long(), self._codes[index].long()
        begin, tokens, count = self._extent[index][:, :, None].unbind(1)
        # Counted so, the position of the first frame's label is 0.
        after = torch.arange(self.length, device=index.device) - begin
        frame = (after > 0) & (after <= count)
        label = torch.where((after >= 0) & (after < count), codes[:, :, 0].roll(-1, 1), IGNORE)
        label = torch.where(after == count, self._end, label)
        text_at = torch.where((after >= 0) & (after <= count), begin + after / count * tokens, -1.0)
        span = torch.cat([begin, begin + tokens], 1).float()
        # The position before a frame predicts it.
        holds = frame[:, 1:].flatten()
        if frames is None:
            chosen = holds.nonzero()[:, 0]
        else:
            chosen = torch.multinomial(holds.float(), frames, replacement=True)
        if cloned is None:
            cloned = (index >= self._own).nonzero()[:, 0]
        heard = text_at.new_zeros(0, 0)
        if len(cloned):
            heard = self._references.draw(self._places[index[cloned] - self._own])
        return Batch(text, codes, frame, label, text_at, span, begin[:, 0] - 2, chosen, cloned, heard)

    def draw(self, training: TalkerTraining) -> Batch:
        """Draw rows for a step. It always has the same number of rows whose speakers are heard, and these are heard in
        recordings like other people's."""
        count, device = max(1, training.positions // self.length), self._places.device
        share = max(training.cloned_rows, 1 - _OFTEN * self._own / self.rows)
        heard = round(share * count) if len(self._places) else 0
        of_each = ((0, self._own, count - heard), (self._own, self.rows, heard))
        index = torch.cat([torch.randint(low, high, (n,), device=device) for low, high, n in of_each if n])
        # In the place of the nth row stands order[n].
        order = torch.randperm(count, device=device)
        made = self.batch(index[order], training.predictor_frames, order.argsort()[count - heard :])
        return made._replace(heard=like_recordings(made.heard)) if heard else made


def stillest(first: NDArray[np.int16]) -> int:
    """Tell for how many frames on end the codes of codebook 0 [n] are the same, at most."""
    changes = np.flatnonzero(np.diff(first)) + 1
    return int(np.diff(np.concatenate([[0], changes, [len(first)]])).max())


class Layout:
    """How utterances become rows, and rows buckets. references: where speakers without an id are heard."""

    def __init__(self, config: Config, tokenizer: Tokenizer, references: References) -> None:
        self._lengths, self._tokenizer, self.references = config.talker_training.lengths, tokenizer, references
        self.text, self.codec = text_ids(tokenizer), codec_ids(config)

    def rows(self, codes: Speech, wanted: Sequence[int]) -> dict[int, Row]:
        """Give rows, by their numbers, of those of the `wanted` utterances that fit the longest bucket, whose text can
        be read and ends before the speech does, whose speech does not stay `STILL`, and whose speaker has an id or is
        heard. Every second row names its language."""
        said = [codes.utterances[i] for i in wanted]
        encoded = self._tokenizer.encode_batch([u.text for u in said])
        rows: dict[int, Row] = {}
        for i, utterance, tokens in zip(wanted, said, (one.ids for one in encoded), strict=True):
            own, place = utterance.speaker in self.codec.speakers, self.references.place(utterance)
            fits = tokens and len(tokens) <= utterance.frames <= self._lengths[-1] - 10
            if (own or place) and fits and stillest(codes.of("codes", i)[:, 0]) <= STILL:
                language = len(rows) % 2 == 0
                row = lay_out(codes.of("codes", i), tokens, utterance.speaker, self.text, self.codec, language=language)
                rows[i] = replace(row, place=None if own else place)
        return rows

    def buckets(self, rows: Sequence[Row]) -> list[Bucket]:
        """Give one bucket for each configured length; empty ones are left out."""
        within = zip((0, *self._lengths), self._lengths, strict=False)
        inside = [(high, [row for row in rows if low < len(row.text) <= high]) for low, high in within]
        return [Bucket(self, found, length) for length, found in inside if found]
