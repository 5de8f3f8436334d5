"""All audio of a run lies in one int16 tensor on the device. Planner processes know where every utterance lies in it,
and waveforms are assembled from their plans."""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.asr.config import Config
from training.asr.plan import SYNTHETIC, Plan, Planner, Utterance
from training.asr.prompt import Prompt
from training.shards import RATE, Clip
from training.stages import Share
from training.transcript import written

Item = tuple[int, int, str, str, list[tuple[int, int]]]
"""An utterance of a synthetic shard (training/speech/write.py): start, length, text, voice, [(sample, words before it),
...]."""


class Pool(IterableDataset[Plan]):
    """`batches.pool_hours` of audio on `device`. Iterated in a planner's process, the pool gives that planner's
    plans."""

    def __init__(
        self, config: Config, tokenizer: Path, rare: Mapping[str, int], device: torch.device, share: Share = (0, 1)
    ) -> None:
        """share: (K, N): one of N pools that hold different generated speech and give different plans."""
        self._config, self._tokenizer, self._rare, self._share = config, tokenizer, rare, share
        self._size = int(config.batches.pool_hours * 3600 * RATE)
        self.audio = torch.zeros(self._size, dtype=torch.int16, device=device)
        self.used = 0  # Samples of `audio` that hold something.
        self._utterances: dict[str, list[Utterance]] = {}
        self._first = 0

    def __iter__(self) -> Iterator[Plan]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        seed = self._config.optimisation.seed * 100 + self._share[0]
        planner = Planner(self._config, Prompt(Tokenizer.from_file(str(self._tokenizer))), self._rare,
                          self._utterances, seed)  # fmt: skip
        for at in itertools.count(self._first + number, count):
            yield planner.plan(at)

    def begin(self, first: int) -> Iterator[Plan]:
        """Give the plans from number `first` on. They are made by processes that end with the iterator and never touch
        the device, which a forked process cannot."""
        self._first = first
        workers = self._config.batches.planners
        # A loader draws a seed for its processes. It is drawn here and not from the run's own numbers, which would
        # change.
        own = torch.Generator()
        return iter(DataLoader(self, None, num_workers=workers, multiprocessing_context="fork", generator=own))

    @property
    def hours(self) -> dict[str, float]:
        """The hours of every source."""
        return {k: sum(u.length for u in found) / RATE / 3600 for k, found in self._utterances.items() if found}

    def _place(self, samples: NDArray[np.int16]) -> int | None:
        """Copy samples to the end of the pool and give their place; None where they do not fit any more."""
        if self.used + len(samples) > self._size:
            return None
        start = self.used
        self.audio[start : start + len(samples)] = torch.from_numpy(samples).to(self.audio.device)
        self.used += len(samples)
        return start

    def add_clips(self, clips: list[Clip], cuts: Mapping[str, list[tuple[int, int]]] | None = None) -> None:
        """Add real speech. A clip that is longer than the longest row allows is left out. cuts: word boundaries of
        clips, by file, as of an utterance.

        Raises:
            ValueError: the pool does not hold all of it.
        """
        for clip in clips:
            text = written(clip.text)
            if len(clip.samples) > 28 * RATE:
                continue
            start = self._place(clip.samples)
            if start is None:
                raise ValueError(f"batches.pool_hours: {self._size / 3600 / RATE:.0f} h do not hold the real speech")
            found = (cuts or {}).get(clip.file, []) if text else []
            u = Utterance(start, len(clip.samples), text, True, [(at, n) for at, n in found])
            self._utterances.setdefault(clip.source, []).append(u)

    def add_sounds(self, source: str, sounds: list[NDArray[np.int16]]) -> None:
        """Add sounds without words."""
        starts = [(self._place(s), len(s)) for s in sounds]
        self._utterances[source] = [Utterance(at, n, "", False, []) for at, n in starts if at is not None]

    def add_synthetic(self, folder: Path) -> None:
        """Add generated speech: this pool's share of the shards in `folder`, by name, as long as they fit."""
        number, count = self._share
        made = self._utterances.setdefault(SYNTHETIC, [])
        for file in sorted(folder.glob("w*.json"))[number::count]:
            base = self._place(np.fromfile(file.with_suffix(".pcm"), np.int16))
            if base is None:
                break
            items: list[Item] = json.loads(file.read_text())
            for at, length, said, _, words in items:
                text = written(said)
                if len(text.split()) != len(said.split()):
                    words = []
                cuts = [(s, n) for s, n in words if 3200 < s < length and 0 < n < len(text.split())]
                made.append(Utterance(base + at, length, text, False, cuts))


def assemble(audio: Tensor, plan: Plan) -> Tensor:
    """Give the waveforms [U, seconds * 16000] of a plan, float32 in about [-1, 1]. Every segment is read at its own
    rate by cubic interpolation, and added to its row."""
    device, rows, length = audio.device, len(plan.length), plan.seconds * RATE
    out = torch.zeros(rows * length, device=device)
    if not len(plan.segments):
        return out.view(rows, length)
    table = torch.from_numpy(plan.segments).to(device, non_blocking=True)
    written = table[:, 6].long()
    first = written.cumsum(0) - written
    total = int(plan.segments[:, 6].sum())
    segment = torch.repeat_interleave(torch.arange(len(table), device=device), written, output_size=total)
    local = torch.arange(total, device=device) - first[segment]
    at = local.double() * table[segment, 4]
    whole = at.floor()
    f = (at - whole).float()
    index, start, last = whole.long(), table[:, 2].long()[segment], (table[:, 3].long() - 1)[segment]

    def read(shift: int) -> Tensor:
        return audio[start + torch.minimum((index + shift).clamp(min=0), last)].float()

    a, b, c, d = read(-1), read(0), read(1), read(2)
    value = b + 0.5 * f * (c - a + f * (2 * a - 5 * b + 4 * c - d + f * (3 * (b - c) + d - a)))
    where = (table[:, 0] * length + table[:, 1]).long()[segment] + local
    out.index_add_(0, where, value * (table[:, 5].float()[segment] / 32768))
    return out.view(rows, length)
