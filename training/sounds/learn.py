"""The guesser is trained on the dictionary's words, aligned. Words that are held out share their first letters with
none."""

import random
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from codec.sounds.dictionary import Entry
from codec.sounds.guess import LETTERS, SCALE
from training.sounds.align import Aligner, units
from training.sounds.guesser import Guesser

STEM = 5
"""Words held out and words learnt differ in the first so many letters, because an inflected form is no new word."""
HELD_OUT = 0.03
"""The share of words that is held out."""
RARE = 12
"""A chunk must occur so many times to be one of the model's."""
_ROUNDS, _SAMPLE = 5, 25_000
"""Rounds of counting, and how many words are counted in each."""
Pair = tuple[str, str]


@dataclass(frozen=True)
class Words:
    """What is learnt, which is letters and chunks of words, and the sounds of those held out."""

    chunks: list[str]
    learnt: list[tuple[str, tuple[int, ...]]]
    held: list[Pair]


def held_out(word: str) -> bool:
    """Whether a word is kept from the training."""
    return zlib.crc32(word[:STEM].encode()) % 1000 < HELD_OUT * 1000


def prepared(words: dict[str, Entry], seed: int) -> Words:
    """Give the dictionary's words as letters and chunks."""
    pairs = [
        (word.lower(), entry.sounds)
        for word, entry in words.items()
        if word.isascii() and word.isalpha() and (word.islower() or word[1:].islower())
    ]
    pairs = [(w, s) for w, s in dict(pairs).items() if 2 < len(w) < 24 and " " not in s]
    said = [(word, units(sounds)) for word, sounds in pairs]
    chance = random.Random(seed)
    aligner = Aligner()
    for _ in range(_ROUNDS):
        aligner.learn(chance.sample(said, min(_SAMPLE, len(said))))
    aligned = [(word, chunks) for word, sounds in said if (chunks := aligner.align(word, sounds)) is not None]
    counts = Counter(chunk for _, chunks in aligned for chunk in chunks)
    known = [chunk for chunk, n in counts.most_common() if n >= RARE]
    number = {chunk: i for i, chunk in enumerate(known)}
    learnt = [
        (word, tuple(number[chunk] for chunk in chunks))
        for word, chunks in aligned
        if not held_out(word) and all(chunk in number for chunk in chunks)
    ]
    return Words(known, learnt, [(word, sounds) for word, sounds in pairs if held_out(word)])


def batches(
    learnt: list[tuple[str, tuple[int, ...]]], size: int, chance: random.Random
) -> Iterator[tuple[Tensor, Tensor]]:
    """Give all words once, those of one length together."""
    rows: dict[int, list[int]] = defaultdict(list)
    order = list(range(len(learnt)))
    chance.shuffle(order)
    found: list[list[int]] = []
    for i in order:
        row = rows[len(learnt[i][0])]
        row.append(i)
        if len(row) == size:
            found.append(row)
            rows[len(learnt[i][0])] = []
    found += [row for row in rows.values() if row]
    chance.shuffle(found)
    for row in found:
        letters = [[LETTERS.index(c) for c in learnt[i][0]] for i in row]
        yield torch.tensor(letters), torch.tensor([learnt[i][1] for i in row])


def train(words: Words, epochs: int, size: int, rate: float, seed: int, where: str = "cpu") -> Guesser:
    """Train, and say each epoch's loss and what of the held-out words was right. ``where``: torch's device."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    model = Guesser(len(LETTERS), len(words.chunks)).to(where)
    steps = epochs * (len(words.learnt) // size + 20)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, steps, pct_start=0.1)
    began = time.perf_counter()
    for epoch in range(epochs):
        model.train()
        total, count = torch.zeros((), device=where), 0
        for letters, chunks in batches(words.learnt, size, chance):
            letters, chunks = letters.to(where), chunks.to(where)
            logits = model(letters, chunks)
            loss = cross_entropy(logits.flatten(0, 1), chunks.flatten(), label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if schedule.last_epoch < steps - 1:
                schedule.step()
            total, count = total + loss.detach(), count + 1
        model.eval()
        right = judged(guesses(model, words), words.held)
        print(
            f"epoch {epoch + 1}/{epochs} {time.perf_counter() - began:.0f} s loss {total.item() / count:.3f}: {right}",
            flush=True,
        )
    return model.eval()


def guesses(model: Guesser, words: Words) -> list[str]:
    """Give the sounds of the held-out words."""
    where = next(model.parameters()).device
    rows: dict[int, list[int]] = defaultdict(list)
    for i, (word, _) in enumerate(words.held):
        rows[len(word)].append(i)
    found = [""] * len(words.held)
    for row in rows.values():
        letters = torch.tensor([[LETTERS.index(c) for c in words.held[i][0]] for i in row], device=where)
        for i, chunks in zip(row, model.guess(letters).tolist(), strict=True):
            found[i] = "".join(words.chunks[chunk] for chunk in chunks)
    return found


def distance(a: list[str], b: list[str]) -> int:
    """Count the edits between two rows of sounds."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


_BARE = str.maketrans("", "", "ˈˌ")
_LIKE = str.maketrans("ᵊᵻɪT", "əəət", "ˈˌ")


def judged(guessed: list[str], held: list[Pair]) -> str:
    """Tell which shares of words and of sounds are right: as written, without stress, and but for the weakest
    vowels."""
    parts: list[str] = []
    for name, table in (("with stress", {}), ("without", _BARE), ("like", _LIKE)):
        words = sounds = wrong = 0
        for guess, (_, right) in zip(guessed, held, strict=True):
            a, b = units(guess.translate(table)), units(right.translate(table))
            words += a == b
            wrong += distance(a, b)
            sounds += len(b)
        parts.append(f"{name} {words / len(held):.1%} of words, {1 - wrong / sounds:.1%} of sounds")
    return "; ".join(parts)


def write(model: Guesser, chunks: list[str], path: Path) -> None:
    """Write the runtime's file: matrices as int8, with a scale for each row."""
    arrays: dict[str, NDArray[Any]] = {"chunks": np.array(chunks)}
    for name, tensor in model.state_dict().items():
        array = tensor.cpu().numpy()
        if array.ndim == 2:
            scale = np.abs(array).max(1, keepdims=True) / 127
            arrays[name] = np.round(array / scale).astype(np.int8)
            arrays[name + SCALE] = scale.astype(np.float16)
        else:
            arrays[name] = array.astype(np.float16)
    np.savez_compressed(path, **arrays)
