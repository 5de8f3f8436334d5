"""When each phone of a recording is said: the phone head's forced alignment.

Contract: times are those at which the head first emits a phone, in frames of 10 ms, ascending by at least two; a clip
whose phones do not fit, or fit badly, is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import ctc_loss

from training.asr.align import viterbi
from training.asr.model import PocketASR
from training.asr.phone_head import inner_states
from training.asr.phones import FRAMES_PER_ROW, Phones
from training.shards import Clip
from training.transcript import transcript

_ROWS_OF_PATHS = 48
_WORST = 1.5
"""Nats a phone beyond which a transcript is not what was said."""


@dataclass(frozen=True)
class Timing:
    """Phones of a clip, ids uint8 [n]; `first` of its word, bool [n]; `at`, frames of 10 ms, uint16 [n]; its text."""

    file: str
    text: str
    phones: NDArray[np.uint8]
    first: NDArray[np.bool_]
    at: NDArray[np.uint16]


def spelled(phones: Phones, words: Sequence[str]) -> tuple[list[int], list[bool]]:
    """Phone ids of words, and which of them begin a word."""
    ids: list[int] = []
    first: list[bool] = []
    for word in words:
        said = phones.of([word])
        ids += said
        first += [i == 0 for i in range(len(said))]
    return ids, first


class Fitted(NamedTuple):
    """Phones against what their head hears: scores [B, T, phones + 1], log-probabilities; tokens int64 [B, n]; frames
    and counts [B] of them that are meant; loss [B], nats a phone, inf where they do not fit."""

    scores: Tensor
    tokens: Tensor
    frames: Tensor
    counts: Tensor
    loss: Tensor


@torch.no_grad()
def fitted(
    head: nn.Module, states: Sequence[NDArray[np.float16]], ids: Sequence[Sequence[int]], device: torch.device
) -> Fitted:
    """CTC of the phones `ids` (at least one) of each clip under the phone head, whose last class is the blank, from its
    inner states float16 [T, d]."""
    frames = torch.tensor([FRAMES_PER_ROW * len(one) for one in states], device=device)
    counts = torch.tensor([len(one) for one in ids], device=device)
    tokens = torch.zeros(len(ids), max(map(len, ids)), dtype=torch.long, device=device)
    rows = torch.zeros(len(states), max(map(len, states)), states[0].shape[1])
    for r, (one, said) in enumerate(zip(states, ids, strict=True)):
        tokens[r, : len(said)] = torch.tensor(said)
        rows[r, : len(one)] = torch.from_numpy(one.astype(np.float32))
    scores = head(rows.to(device)).unflatten(-1, (FRAMES_PER_ROW, -1)).flatten(1, 2).float().log_softmax(-1)
    blank = scores.shape[-1] - 1
    loss = ctc_loss(scores.transpose(0, 1), tokens, frames, counts, blank=blank, reduction="none")
    return Fitted(scores, tokens, frames, counts, loss / counts)


def time_phones(model: PocketASR, clips: Sequence[Clip], phones: Phones, device: torch.device) -> Iterator[Timing]:
    """Timings of the clips that align. `model` has a phone head over `phones`."""
    head, tower = model.phones, model.thinker.audio_tower
    assert head is not None
    states_of = inner_states(tower, clips, device)
    while group := list(islice(states_of, _ROWS_OF_PATHS)):
        wanted = [(clip, states, *spelled(phones, transcript(clip.text).split())) for clip, states in group]
        wanted = [w for w in wanted if w[2] and 1.1 * len(w[2]) < FRAMES_PER_ROW * len(w[1])]
        if not wanted:
            continue
        fit = fitted(head, [states for _, states, _, _ in wanted], [ids for _, _, ids, _ in wanted], device)
        path = viterbi(fit.scores, fit.tokens, fit.frames, fit.counts, len(phones)).cpu().numpy()
        for (clip, _, ids, first), row, bad in zip(wanted, path, fit.loss.tolist(), strict=True):
            at = np.round((row[: len(ids)] + 0.5) * (8 / FRAMES_PER_ROW)).astype(np.uint16)
            if bad < _WORST and (np.diff(at.astype(int)) >= 2).all():
                yield Timing(clip.file, transcript(clip.text), np.array(ids, np.uint8), np.array(first), at)


def save_timings(timings: Sequence[Timing], path: Path) -> None:
    """One .npz of all."""
    np.savez_compressed(
        path,
        files=np.array([t.file for t in timings]),
        texts=np.array([t.text for t in timings]),
        counts=np.array([len(t.at) for t in timings]),
        phones=np.concatenate([t.phones for t in timings]),
        first=np.concatenate([t.first for t in timings]),
        at=np.concatenate([t.at for t in timings]),
    )


def load_timings(path: Path) -> list[Timing]:
    """What `save_timings` wrote."""
    with np.load(path) as z:
        files, texts, ends = z["files"].tolist(), z["texts"].tolist(), z["counts"].cumsum()[:-1]
        parts = zip(*(np.split(z[k], ends) for k in ("phones", "first", "at")), strict=True)
        return [Timing(f, t, *three) for f, t, three in zip(files, texts, parts, strict=True)]


def silence(timings: Sequence[Timing]) -> int:
    """The id of no phone: the one after those that are said."""
    return 1 + max(int(t.phones.max()) for t in timings)
