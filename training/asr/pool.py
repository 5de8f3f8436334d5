"""All audio of a run in one int16 tensor on the device, the planner processes that know where every utterance lies in
it, and the assembly of waveforms from a plan.
"""

import json
import multiprocessing
import queue
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from training.asr.config import Config
from training.asr.plan import SYNTHETIC, Plan, Planner
from training.asr.prompt import Prompt
from training.asr.utterances import Utterance
from training.shards import RATE, Clip
from training.transcript import written

_AHEAD = 12  # plans waiting
Item = tuple[int, int, str, str, list[tuple[int, int]]]
"""An utterance of a synthetic shard (training/speech/write.py): start, length, text, voice, [(sample, words before
it), ...]."""


def _run_planner(
    config: Config,
    tokenizer: str,
    rare: list[str],
    seed: int,
    control: Any,
    plans: Any,
    progress: Any,
) -> None:
    """A process: takes ("add", source, utterances), ("align", cuts) or ("go",) from `control`, puts plans on
    `plans`."""
    torch.set_num_threads(1)
    planner = Planner(config, Prompt(Tokenizer.from_file(tokenizer)), rare, seed)
    ready = False
    while True:
        while True:
            try:
                message = control.get(block=not ready)
            except queue.Empty:
                break
            match message:
                case ("add", str(source), utterances):
                    planner.add(source, utterances)
                case ("align", cuts):
                    planner.align(cuts)
                case _:
                    ready = True
        plans.put(planner.plan(progress.value))


class Pool:
    """`batches.pool_hours` of audio on `device`."""

    def __init__(self, config: Config, tokenizer: Path, rare: list[str], device: torch.device) -> None:
        context = multiprocessing.get_context("fork")
        count = config.batches.planners
        self.progress = context.Value("d", 0.0)
        self._plans = context.Queue(_AHEAD)
        self._controls = [context.Queue() for _ in range(count)]
        seeds = [config.optimisation.seed * 10_000 + i for i in range(count)]
        given = [
            (config, str(tokenizer), rare, seed, control, self._plans, self.progress)
            for seed, control in zip(seeds, self._controls, strict=True)
        ]
        self._processes = [context.Process(target=_run_planner, args=one, daemon=True) for one in given]
        for process in self._processes:
            process.start()  # before the device is touched: a fork after that cannot use it
        self._size, self._device = int(config.batches.pool_hours * 3600 * RATE), device
        self._audio: Tensor | None = None
        self._used = 0
        self.hours: dict[str, float] = {}
        self.real: list[Utterance] = []

    @property
    def audio(self) -> Tensor:
        if self._audio is None:
            self._audio = torch.zeros(self._size, dtype=torch.int16, device=self._device)
        return self._audio

    def _tell(self, message: tuple[Any, ...]) -> None:
        for control in self._controls:
            control.put(message)

    def _place(self, samples: NDArray[np.int16]) -> int | None:
        """Copy samples to the end of the pool; None where they do not fit any more."""
        if self._used + len(samples) > self._size:
            return None
        start = self._used
        self.audio[start : start + len(samples)] = torch.from_numpy(samples).to(self._device)
        self._used += len(samples)
        return start

    def _announce(self, source: str, utterances: list[Utterance]) -> None:
        self._tell(("add", source, utterances))
        self.hours[source] = self.hours.get(source, 0.0) + sum(u.length for u in utterances) / RATE / 3600

    def add_clips(self, clips: list[Clip]) -> None:
        """Real speech; a clip without a usable transcript, or longer than the longest row allows, is left out."""
        by_source: dict[str, list[Utterance]] = {}
        for clip in clips:
            text = written(clip.text)
            if not text or len(clip.samples) > 28 * RATE:
                continue
            start = self._place(clip.samples)
            if start is None:
                raise ValueError(f"batches.pool_hours: {self._size / 3600 / RATE:.0f} h do not hold the real speech")
            by_source.setdefault(clip.source, []).append(Utterance(start, len(clip.samples), text, True, []))
        for source, utterances in by_source.items():
            self.real += utterances
            self._announce(source, utterances)

    def add_sounds(self, source: str, sounds: list[NDArray[np.int16]]) -> None:
        """Sounds without words."""
        starts = [(self._place(s), len(s)) for s in sounds]
        self._announce(source, [Utterance(at, n, "", False, []) for at, n in starts if at is not None])

    def add_synthetic(self, folder: Path) -> None:
        """Generated speech: the shards in `folder`, by name, as long as they fit."""
        for file in sorted(folder.glob("w*.json")):
            base = self._place(np.fromfile(file.with_suffix(".pcm"), np.int16))
            if base is None:
                break
            utterances: list[Utterance] = []
            items: list[Item] = json.loads(file.read_text())
            for at, length, said, _, words in items:
                text = written(said)
                if len(text.split()) != len(said.split()):
                    words = []
                cuts = [(s, n) for s, n in words if 3200 < s < length and 0 < n < len(text.split())]
                utterances.append(Utterance(base + at, length, text, False, cuts))
            self._announce(SYNTHETIC, utterances)

    def align(self, cuts: dict[int, list[tuple[int, int]]]) -> None:
        """Word boundaries of real utterances (keyed by their start) for all planners."""
        self._tell(("align", cuts))

    def begin(self) -> None:
        """Let the planners plan with what they have been told so far."""
        self._tell(("go",))

    def next(self) -> Plan:
        return self._plans.get()

    def close(self) -> None:
        """End the planners; what they have not read yet is dropped."""
        for control in self._controls:
            control.cancel_join_thread()
        for process in self._processes:
            process.kill()


def assemble(audio: Tensor, plan: Plan) -> Tensor:
    """Waveforms [U, seconds * 16000], float32 in about [-1, 1]: every segment read at its own rate by cubic
    interpolation, and added."""
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
