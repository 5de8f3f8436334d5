"""The phone head for an encoder that has lost it, or has none yet: fitted to the inner states of an encoder that stays.

A run with `--phones` trains its encoder by such a head; weights that come back from a shipped model may be without. A
LayerNorm and a matrix on frozen states are fitted on a processor in minutes, and nothing else of the model changes.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from training.asr.encoder import AudioTower
from training.asr.model import PocketASR
from training.asr.phones import FRAMES_PER_ROW, Phones
from training.asr.spectrogram import HOP, LogMel, past_end
from training.shards import RATE, Clip
from training.transcript import transcript

_RATE, _DROPOUT = 3e-3, 0.1
_BATCH_SECONDS, _ON_CUDA = 120, 8  # times as many there
_LONGEST = 24 * RATE


@dataclass(frozen=True)
class Heard:
    """A clip's inner states float16 [T, d], and its phones."""

    states: NDArray[np.float16]
    phones: list[int]


def inner_states(
    tower: AudioTower, clips: Sequence[Clip], device: torch.device
) -> Iterator[tuple[Clip, NDArray[np.float16]]]:
    """(clip, inner states float16 [T, d]) of every clip that is not too long; on CUDA by bfloat16 as in training."""
    mel = LogMel().to(device)
    seconds = _BATCH_SECONDS * (_ON_CUDA if device.type == "cuda" else 1)
    for batch in _batches([c for c in clips if len(c.samples) <= _LONGEST], seconds):
        frames = torch.tensor([len(c.samples) // HOP for c in batch], device=device)
        width = -(-(int(frames.max()) + 1) // tower.chunk) * tower.chunk * HOP
        samples = torch.zeros(len(batch), width, device=device)
        for row, clip in zip(samples, batch, strict=True):
            row[: len(clip.samples)] = torch.from_numpy(clip.samples.astype(np.float32) / 32768)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            _, middle, count = tower(past_end(mel(samples), frames), frames)
        for clip, states, n in zip(batch, middle.half().cpu().numpy(), count.tolist(), strict=True):
            yield clip, states[:n].copy()


def hear(tower: AudioTower, clips: Sequence[Clip], phones: Phones, device: torch.device) -> list[Heard]:
    """Inner states of clips; clips whose phones do not fit their rows are left out."""
    heard: list[Heard] = []
    for clip, states in inner_states(tower, clips, device):
        said = phones.of(transcript(clip.text).split())
        if said and len(said) < 0.9 * FRAMES_PER_ROW * len(states):
            heard.append(Heard(states, said))
    return heard


def _batches(clips: Sequence[Clip], seconds: float) -> Iterator[list[Clip]]:
    """Of clips about as long as each other, which together are as long as `seconds` at most."""
    batch: list[Clip] = []
    for clip in sorted(clips, key=lambda c: len(c.samples)):
        if batch and (len(batch) + 1) * len(clip.samples) > seconds * RATE:
            yield batch
            batch = []
        batch.append(clip)
    if batch:
        yield batch


def fit(model: PocketASR, heard: Sequence[Heard], passes: int, seed: int = 1) -> list[float]:
    """Train `model.phones` on what was heard; the loss of each pass, in nats a phone.

    Raises:
        ValueError: nothing was heard, or the model has no phone head.
    """
    head = model.phones
    if head is None or not heard:
        raise ValueError("phones: nothing to learn from" if head is not None else "phones: the model has no phone head")
    torch.manual_seed(seed)
    order = sorted(heard, key=lambda h: len(h.states))
    batches = [order[i : i + 32] for i in range(0, len(order), 32)]
    optimizer = torch.optim.AdamW(head.parameters(), lr=_RATE, weight_decay=0.01)
    losses: list[float] = []
    step, steps, began = 0, passes * len(batches), time.monotonic()
    for _ in range(passes):
        total = 0.0
        for i in torch.randperm(len(batches)).tolist():
            for group in optimizer.param_groups:
                group["lr"] = _RATE * min(1.0, (step + 1) / 50) * (1 - step / steps)
            loss = _loss(head, batches[i], _DROPOUT)
            optimizer.zero_grad()
            (loss / sum(len(h.phones) for h in batches[i])).backward()
            optimizer.step()
            total, step = total + loss.item(), step + 1
        losses.append(total / sum(len(h.phones) for h in heard))
        print(f"phones: {losses[-1]:.3f} nats, {time.monotonic() - began:.0f} s", flush=True)
    return losses


@torch.no_grad()
def loss_of(model: PocketASR, heard: Sequence[Heard]) -> float:
    """Of the model's phone head, in nats a phone."""
    assert model.phones is not None
    total = sum(_loss(model.phones, [one], 0.0).item() for one in heard)
    return total / sum(len(one.phones) for one in heard)


def _loss(head: nn.Module, batch: Sequence[Heard], dropout: float) -> Tensor:
    """CTC, summed over a batch."""
    device = next(head.parameters()).device
    count = torch.tensor([len(one.states) for one in batch])
    states = torch.zeros(len(batch), int(count.max()), batch[0].states.shape[1])
    for row, one in zip(states, batch, strict=True):
        row[: len(one.states)] = torch.from_numpy(one.states.astype(np.float32))
    scores = head(F.dropout(states.to(device), dropout)).unflatten(-1, (FRAMES_PER_ROW, -1)).flatten(1, 2)
    return F.ctc_loss(
        scores.float().log_softmax(-1).transpose(0, 1),
        torch.tensor([p for one in batch for p in one.phones]),
        count * FRAMES_PER_ROW,
        torch.tensor([len(one.phones) for one in batch]),
        blank=scores.shape[-1] - 1,
        reduction="sum",
        zero_infinity=True,
    )
