"""New sentences in the voices of the recordings, and in voices between two of them, as shards that `training.asr train`
takes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.asr.spectrogram import HOP
from training.asr.synth import SHARD_SECONDS, Item, write_shard
from training.readers.bands import Bands
from training.readers.corpus import Corpus, said_in
from training.readers.model import Reader
from training.readers.script import Line
from training.shards import RATE

ENGINE = "readers"
_ROUND = 4096  # sentences whose lengths are known before the first of them is painted
_EDGE = 20  # slots before the first phone and after the last one, at most
_LOUD = 12000
_PAUSES = {",": 9, ";": 12, ":": 12, ".": 18, "?": 18, "!": 18}  # slots at a mark inside a text, where times are even


@dataclass(frozen=True)
class Manner:
    """How it is read. steps, guidance: see `Reader.paint`; between: share of the sentences read by a voice between two;
    apart: how far voices are moved at random, in units of the spread of those there are; alike: how far they are drawn
    to the mean of all; pace: spread of the pace; even: phones last what is likely, and pauses stand at marks alone;
    rounds: see `Bands.sound`; slots_per_batch: painted at once."""

    steps: int = 12
    guidance: float = 0.5
    between: float = 0.5
    apart: float = 0.0
    alike: float = 0.0
    pace: float = 0.1
    even: bool = False
    rounds: int = 24
    slots_per_batch: int = 76_800


@dataclass(frozen=True)
class Spoken:
    """A line that was read: int16 samples and (sample, words before it) of its inner word boundaries."""

    line: Line
    samples: NDArray[np.int16]
    cuts: list[tuple[int, int]]


class Casting:
    """Draws voices: a source by its weight, a reader of it, a clip of the reader's."""

    def __init__(self, corpus: Corpus, weights: Mapping[str, float], seed: int) -> None:
        self._random = np.random.default_rng(seed)
        readers: dict[str, dict[str, list[int]]] = {}
        for i, voice in enumerate(corpus.voices):
            readers.setdefault(voice.source, {}).setdefault(voice.reader, []).append(i)
        self._readers = {s: list(by.values()) for s, by in readers.items() if weights.get(s)}
        total = sum(weights[s] for s in self._readers)
        self._sources = list(self._readers)
        self._shares = [weights[s] / total for s in self._sources]

    def pairs(self, count: int) -> NDArray[np.intp]:
        """[count, 2] clips, the two of a row of one source."""

        def clip(source: str) -> int:
            readers = self._readers[source]
            own = readers[self._random.integers(len(readers))]
            return own[self._random.integers(len(own))]

        drawn = self._random.choice(len(self._sources), count, p=self._shares)
        return np.array([[clip(self._sources[s]), clip(self._sources[s])] for s in drawn])


@torch.no_grad()
def styles(model: Reader, corpus: Corpus, casting: Casting, count: int, manner: Manner) -> Tensor:
    """[count, style], each of the length that `Reader.style` gives, as `manner` has voices between two, apart and
    alike."""
    pairs = casting.pairs(count)
    one, other = (model.style(corpus.heard(pairs[:, i])) for i in range(2))
    part = torch.rand(count, 1, device=one.device) * (torch.rand(count, 1, device=one.device) < manner.between)
    mixed = one.lerp(other, part)
    if manner.apart:
        mixed = mixed + manner.apart * one.std(0) * torch.randn_like(mixed)
    mixed = mixed.lerp(mixed.mean(0, keepdim=True), manner.alike)
    return mixed / mixed.norm(dim=-1, keepdim=True) * mixed.shape[-1] ** 0.5


@torch.no_grad()
def times(
    model: Reader, lines: Sequence[Line], style: Tensor, pace: float, *, even: bool = False
) -> list[NDArray[np.int64]]:
    """For each line the slots at which its phones begin, and where it ends, int64 [n + 1]. pace: spread of the speed's
    logarithm; even: the median of each time, and pauses at marks alone."""
    width = 1 + max(len(line.phones) for line in lines)
    ids = np.full((len(lines), width), 2 * model.silent)
    for row, line in zip(ids, lines, strict=True):
        row[1 : len(line.phones) + 1] = 2 * line.phones.astype(int) + line.first
    count = torch.tensor([1 + len(line.phones) for line in lines], device=style.device)
    mask = torch.arange(width, device=style.device)[None] < count[:, None]
    logits = model.timer(torch.from_numpy(ids).to(style.device), style, mask).float()
    if even:  # the median
        gaps = (logits.softmax(-1).cumsum(-1) < 0.5).sum(-1).cpu().numpy()
    else:
        gaps = torch.distributions.Categorical(logits=logits).sample().cpu().numpy()
    speed = (pace * torch.randn(len(lines))).exp().tolist()
    out: list[NDArray[np.int64]] = []
    for row, line, factor in zip(gaps, lines, speed, strict=True):
        mine = row[: len(line.phones) + 1].astype(float)
        mine[[0, -1]] = mine[[0, -1]].clip(3, _EDGE)
        if even:
            mine[:-1] += _pauses(line)
        edges = np.round((mine * factor).cumsum()).astype(int)
        # Two phones never begin in the same slot.
        out.append(np.maximum.accumulate(edges - np.arange(len(edges))) + np.arange(len(edges)))
    return out


def _pauses(line: Line) -> NDArray[np.float64]:
    """Slots of silence before each phone: those that the mark of the word before asks for."""
    out = np.zeros(len(line.phones))
    for word, start in zip(line.text.split(), np.flatnonzero(line.first)[1:], strict=False):
        out[start] = _PAUSES.get(word[-1], 0)
    return out


@torch.no_grad()
def read_lines(
    model: Reader, corpus: Corpus, casting: Casting, lines: Sequence[Line], widths: Sequence[int], manner: Manner
) -> Iterator[Spoken]:
    """The lines that fit the widest row, shorter ones first."""
    device = model.mean.device
    bands = Bands().to(device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        style = styles(model, corpus, casting, len(lines), manner)
        edges = [
            e
            for i in range(0, len(lines), 512)
            for e in times(model, lines[i : i + 512], style[i : i + 512], manner.pace, even=manner.even)
        ]
    order = sorted((i for i in range(len(lines)) if edges[i][-1] <= max(widths)), key=lambda i: edges[i][-1])
    while order:
        width = min(w for w in widths if w >= edges[order[0]][-1])
        rows = max(1, manner.slots_per_batch // width)
        group = [i for i in order[:rows] if edges[i][-1] <= width]
        order = order[len(group) :]
        # Rows are filled up, so that a width has one shape.
        padded = group + [group[-1]] * (rows - len(group))
        said = np.zeros((rows, width, 4), np.uint8)
        for row, i in zip(said, padded, strict=True):
            line, at = lines[i], edges[i]
            row[: at[-1]] = said_in(line.phones, line.first, at[:-1], at[-1], model.silent)
        count = torch.tensor([edges[i][-1] for i in padded], device=device)
        mask = torch.arange(width, device=device)[None] < count[:, None]
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            painted = model.paint(
                torch.from_numpy(said).to(device).long(), style[padded], mask, manner.steps, manner.guidance
            )
        sound = bands.sound(painted.float(), manner.rounds)[: len(group)]
        sound = sound * mask[: len(group)].repeat_interleave(2 * HOP, 1)
        sound = (sound * (_LOUD / sound.abs().amax(1, keepdim=True).clamp(min=1e-6))).short().cpu().numpy()
        for samples, i in zip(sound, group, strict=True):
            yield Spoken(lines[i], samples[: edges[i][-1] * 2 * HOP].copy(), _cuts(lines[i], edges[i]))


def _cuts(line: Line, edges: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Word boundaries: a little before the word's first phone, which its head hears late."""
    starts = np.flatnonzero(line.first)[1:]
    gap = edges[starts] - edges[starts - 1]
    at = (edges[starts] - np.minimum(gap // 2, 3)) * 2 * HOP
    return [(int(a), n + 1) for n, a in enumerate(at)]


def read_aloud(
    model: Reader,
    corpus: Corpus,
    casting: Casting,
    script: Sequence[Line],
    widths: Sequence[int],
    manner: Manner,
    out: Sequence[Path],
    hours: float,
    part: tuple[int, int] = (0, 1),
) -> float:
    """Shards as `synth` writes them into each folder of `out`, from whole rounds of the script until there are `hours`,
    or it ends; how many. `part` (K, N): every Nth round from the Kth on, for processes that share a script and folders;
    their shards have different names."""
    first, every = part
    for folder in out:
        folder.mkdir(parents=True, exist_ok=True)
    made, shard = 0, 0
    parts: list[NDArray[np.int16]] = []
    items: list[Item] = []
    length = 0

    def write() -> None:
        nonlocal parts, items, length, shard
        number = shard * every + first
        write_shard(out, f"w{number % 100:02d}_r{number:04d}", parts, items)
        parts, items, length, shard = [], [], 0, shard + 1

    for i in range(first * _ROUND, len(script), every * _ROUND):
        for spoken in read_lines(model, corpus, casting, script[i : i + _ROUND], widths, manner):
            items.append((length, len(spoken.samples), spoken.line.text, ENGINE, spoken.cuts))
            parts.append(spoken.samples)
            length += len(spoken.samples)
            made += len(spoken.samples)
            if length >= SHARD_SECONDS * RATE:
                write()
        if made >= hours * 3600 * RATE:
            break
    if parts:
        write()
    return made / RATE / 3600
