"""Word boundaries of real utterances are found by CTC forced alignment, with a model that is trained already.

A model soon knows twenty hours of transcripts by heart. It does not know spans of words that are cut from them, and
truncated audio with truncated text is what a live stream looks like.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.encoder import token_count
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel, heard
from training.shards import RATE, Clip

# The logarithm of a path's probability that is as good as zero, and still finite.
NEGATIVE = -1e9
# Samples between two values of the energy, 5 ms: a gap between words is seldom shorter than some of them.
_ENERGY_HOP = 80


def viterbi(scores: Tensor, tokens: Tensor, frames: Tensor, counts: Tensor, blank: int) -> Tensor:
    """Find the best CTC path. scores [B, T, V + 1] log-probabilities, tokens [B, S], numbers of valid frames [B] and
    tokens [B] -> the frame at which each token is first emitted, int64 [B, S], which past a row's tokens says
    nothing."""
    b, t, _ = scores.shape
    s = tokens.shape[1]
    device = scores.device
    labels = torch.full((b, 2 * s + 1), blank, dtype=torch.long, device=device)
    labels[:, 1::2] = tokens
    skip = torch.zeros_like(labels, dtype=torch.bool)
    skip[:, 3::2] = tokens[:, 1:] != tokens[:, :-1]
    alpha = torch.full((b, 2 * s + 1), NEGATIVE, device=device)
    alpha[:, 0] = scores[:, 0, blank]
    alpha[:, 1] = scores[:, 0].gather(1, labels[:, 1:2])[:, 0]
    moves = torch.zeros(t, b, 2 * s + 1, dtype=torch.uint8, device=device)
    for i in range(1, t):
        one = F.pad(alpha, (1, 0), value=NEGATIVE)[:, :-1]
        two = F.pad(alpha, (2, 0), value=NEGATIVE)[:, :-2].masked_fill(~skip, NEGATIVE)
        best, move = torch.stack([alpha, one, two]).max(0)
        new = best + scores[:, i].gather(1, labels)
        alpha = torch.where((i < frames)[:, None], new, alpha)
        moves[i] = torch.where((i < frames)[:, None], move.to(torch.uint8), 0)
    last = 2 * counts
    ends = torch.stack([alpha.gather(1, last[:, None])[:, 0], alpha.gather(1, (last - 1).clamp(min=0)[:, None])[:, 0]])
    state = last - ends.argmax(0)
    first = torch.zeros(b, s, dtype=torch.long, device=device)
    for i in range(t - 1, -1, -1):
        token = (state - 1) // 2
        odd = state % 2 == 1
        first[odd, token[odd]] = i
        state = (state - moves[i].gather(1, state[:, None])[:, 0].long()).clamp(min=0)
    return first


def quietest(energy: NDArray[np.float32], low: int, high: int) -> int:
    """Give the sample in [low, high) around which `energy` (one value for each _ENERGY_HOP samples) is least."""
    first, last = low // _ENERGY_HOP + 1, high // _ENERGY_HOP
    if last <= first:
        return (low + high) // 2
    return (first + int(energy[first:last].argmin())) * _ENERGY_HOP


@torch.no_grad()
def cut_at_words(model: PocketASR, mel: LogMel, prompt: Prompt, clips: Sequence[Clip]) -> list[list[tuple[int, int]]]:
    """Give (sample, words before it) at the inner word boundaries of each clip, by a model that hears well enough.
    There are none where a clip has no text or is shorter than half a second."""
    rows, chunk = model.shape.chunk_rows, model.shape.chunk_frames * HOP
    model.eval()
    device = mel.window.device
    out: list[list[tuple[int, int]]] = [[] for _ in clips]
    long = [i for i, c in enumerate(clips) if len(c.samples) >= RATE // 2 and c.text]
    waves = [torch.from_numpy(clips[i].samples) for i in long]
    for places, samples, frames, spectra in heard(waves, mel, model.shape.chunk_frames):
        group = [long[i] for i in places]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = model.ctc(model.hear(spectra, frames).states).float().log_softmax(-1)
        words = [[prompt.words([w]) for w in clips[i].text.split()] for i in group]
        ids = [torch.tensor([t for w in row for t in w]) for row in words]
        tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(device)
        counts = torch.tensor([len(r) for r in ids], device=device)
        count = token_count(frames, model.shape.chunk_frames)
        at = viterbi(scores, tokens, count, counts, model.shape.vocab).tolist()
        energy = F.avg_pool1d(samples[:, None] ** 2, 320, _ENERGY_HOP, padding=160)[:, 0].cpu().numpy()
        for r, i in enumerate(group):
            length = len(clips[i].samples)
            cuts: list[tuple[int, int]] = []
            position = 0
            for w, row in enumerate(words[r][:-1]):
                position += len(row)
                low, high = at[r][position - 1], at[r][position]
                sample = [int((f // rows + (f % rows) / rows) * chunk) for f in (low, high + 1)]
                if low < high and sample[1] - sample[0] < 4 * RATE:
                    cuts.append((quietest(energy[r], sample[0], min(sample[1], length)), w + 1))
            out[i] = [c for c in cuts if 800 < c[0] < length - 800]
    return out
