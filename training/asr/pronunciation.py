"""A net that says how a word sounds: espeak-ng's pronunciations in 200 kB, for a runtime without espeak-ng.

Letters in, phones out, without a lexicon: each letter (and the word's start and end) says up to two phones,
convolutions see their neighbours, CTC finds out which letter says what. Finals ask the phone head how probable a text
sounds (streaming/pronunciation.py has the file's layout and computes the same in NumPy); every string of letters must
have phones there, words that nobody wrote among them.
"""

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engines.lexicon import Lexicon
from training.asr.lexicon import LEAST
from training.asr.phones import Phones

LETTERS = "abcdefghijklmnopqrstuvwxyz'"
SLOTS = 2  # phones that a letter may say: x is k and s
_EMBEDDING, _WIDTH, _KERNELS = 32, 96, (5, 5, 3)
_BATCH, _RATE = 256, 4e-3
_HELD_OUT = 20  # one word in so many is not learnt


class Speller(nn.Module):
    """Log-probabilities of phones from letters; class `phones` is the blank."""

    def __init__(self, phones: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(LETTERS) + 2, _EMBEDDING)
        widths = (_EMBEDDING, *[_WIDTH] * (len(_KERNELS) - 1))
        self.convolution = nn.ModuleList(
            nn.Conv1d(n, _WIDTH, kernel, padding=kernel // 2) for n, kernel in zip(widths, _KERNELS, strict=True)
        )
        self.out = nn.Linear(_WIDTH, SLOTS * (phones + 1))

    def forward(self, letters: Tensor, count: Tensor) -> Tensor:
        """letters int64 [B, L] of which count [B] are a word's -> [B, SLOTS * L, phones + 1]. What stands behind a
        word changes nothing of it."""
        real = (torch.arange(letters.shape[1])[None] < count[:, None])[:, None]
        x = self.embedding(letters).transpose(1, 2) * real
        for i, layer in enumerate(self.convolution):
            y = F.relu(layer(x)) * real
            x = y if i == 0 else x + y
        return self.out(x.transpose(1, 2)).unflatten(-1, (SLOTS, -1)).flatten(1, 2).log_softmax(-1)

    @torch.no_grad()
    def say(self, words: Sequence[str]) -> list[list[int]]:
        """The phones of each word: the likeliest of every slot, equal neighbours once, blanks left out."""
        letters, count = spelled(words)
        best = self(letters, count).argmax(-1)
        blank = self.out.out_features // SLOTS - 1
        said: list[list[int]] = []
        for row, n in zip(best.tolist(), count.tolist(), strict=True):
            slots: list[int] = row[: SLOTS * n]
            said.append([p for i, p in enumerate(slots) if p != blank and (i == 0 or slots[i - 1] != p)])
        return said


def spelled(words: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Ids int64 [B, L] and how many of each row are its word's: start, letters, end."""
    ids = [[0, *(LETTERS.index(c) + 1 for c in word if c in LETTERS), len(LETTERS) + 1] for word in words]
    count = torch.tensor([len(row) for row in ids])
    letters = torch.zeros(len(ids), int(count.max()), dtype=torch.long)
    for row, found in zip(letters, ids, strict=True):
        row[: len(found)] = torch.tensor(found)
    return letters, count


def known(phones: Phones, counts: Mapping[str, int]) -> dict[str, list[int]]:
    """Words with letters, and their phones, where the letters have slots for all of these."""
    words = {word: phones.of([word]) for word, n in counts.items() if n >= LEAST and word.strip("'")}
    return {w: said for w, said in words.items() if said and len(said) < SLOTS * (len(w) + 2) - _repeats(said)}


def _repeats(said: Sequence[int]) -> int:
    """Blanks that CTC needs between equal neighbours."""
    return sum(a == b for a, b in zip(said, said[1:], strict=False))


def learn(
    words: Mapping[str, Sequence[int]], counts: Mapping[str, int], phones: int, passes: int, seed: int = 1
) -> tuple[Speller, tuple[float, float]]:
    """Train on the phones (of `phones`) of `words`, frequent ones more often; eight seconds a pass over the fiction's.

    Returns:
        The net, and the shares of held-out words and of all words as they occur in `counts` that it says as given.

    Raises:
        ValueError: no words.
    """
    torch.manual_seed(seed)
    order = sorted(words)
    random.Random(seed).shuffle(order)
    held_out, learnt = order[::_HELD_OUT], [w for i, w in enumerate(order) if i % _HELD_OUT]
    if not learnt:
        raise ValueError("pronunciation: no words to learn from")
    net = Speller(phones)
    optimizer = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=1e-3)
    weights = np.log1p([counts[w] for w in learnt])
    draw = np.random.default_rng(seed)
    steps, began = max(1, passes * len(learnt) // _BATCH), time.monotonic()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / 200) * (1 - step / steps)
        chosen = [learnt[i] for i in draw.choice(len(learnt), _BATCH, p=weights / weights.sum())]
        letters, count = spelled(chosen)
        loss = F.ctc_loss(
            net(letters, count).transpose(0, 1),
            torch.tensor([p for w in chosen for p in words[w]]),
            SLOTS * count,
            torch.tensor([len(words[w]) for w in chosen]),
            blank=phones,
            zero_infinity=True,
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step} of {steps}, loss {loss.item():.3f}, {time.monotonic() - began:.0f} s", flush=True)
    net.half().float()  # as it will be stored
    right = {w: said == list(words[w]) for part in (held_out, learnt) for w, said in _said(net, part)}
    total = sum(counts[w] for w in right)
    return net, (
        sum(right[w] for w in held_out) / max(len(held_out), 1),
        sum(counts[w] for w, ok in right.items() if ok) / total,
    )


def _said(net: Speller, words: Sequence[str]) -> list[tuple[str, list[int]]]:
    parts = [words[i : i + 1000] for i in range(0, len(words), 1000)]
    return [pair for part in parts for pair in zip(part, net.say(part), strict=True)]


def save(net: Speller, names: Sequence[str], words: Sequence[str], path: Path) -> None:
    """The file that streaming/pronunciation.py reads, float16, with the `words` that finals should know."""
    arrays = {k.removesuffix(".weight") if k.startswith("embedding") else k: v for k, v in net.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, letters=np.array(LETTERS), names=np.array(names),
        words=np.frombuffer(Lexicon(words).pack(), np.uint8),
        **{k: v.to(torch.float16).numpy() for k, v in arrays.items()},
    )  # fmt: skip
