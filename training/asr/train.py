"""The training run, evaluated and saved on the way.

What stands in `out` after each evaluation beside what `run.py` names: float16 averaged weights; at the end also
the last weights without average. run.json tells the files of the clips held out as `dev`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.asr.align import cut_at_words
from training.asr.augment import generated_music
from training.asr.config import Config
from training.asr.evaluate import score
from training.asr.labels import relabelled, split
from training.asr.model import PocketASR, shipping
from training.asr.optimizer import Optimizer, averaged
from training.asr.plan import MUSIC, RARE, VIEWS, Plan
from training.asr.pool import Pool
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.asr.telephone import telephoned
from training.checkpoint import WEIGHTS, load_weights, save_weights
from training.run import Given, Trainer, rate_at
from training.shards import RATE, Clip, read_shards
from training.transcript import transcript

MEASURES = ("ce", "accuracy", "views", "taught", "ctc", "inner ctc", "gradient norm")
_ALIGN_AT = (0.0, 0.3, 0.6)  # of the run
_QUICK = 120  # clips of a set that are scored on the way
LAST = "last"  # folder of the weights at the end, without average


@dataclass(frozen=True, kw_only=True)
class HearingRun(Given):
    """What a run is given besides the configuration of the model."""

    shards: tuple[Path, ...]
    text: Path
    tokenizer: Path
    start: Path  # checkpoint folder to begin from
    synthetic: Path | None = None
    teacher: Path | None = None  # model folder of Whisper small (teacher.py)
    labels: Path | None = None  # texts of clips, by file, instead of those of their index (labels.py)


def rare_words(text: Path, clips: list[Clip]) -> dict[str, int]:
    """Words that occur, but seldom, and how often: what keyterms are made of."""
    counts: Counter[str] = Counter()
    for line in (*text.read_text().splitlines(), *(clip.text for clip in clips)):
        counts.update(transcript(line).split())
    return {w: n for w, n in sorted(counts.items()) if n < RARE and len(w) > 3}


class HearingTrainer(Trainer):
    """A run."""

    save_every = 240.0

    def __init__(self, config: Config, run: HearingRun) -> None:
        """RuntimeError: the weights to begin from are not of this shape."""
        super().__init__("run", run, config, MEASURES, config.optimisation.seed)
        clips = relabelled(read_shards(run.shards, config.batches.planners), run.labels)
        held_out, clips = split(clips, config.batches.dev_every)
        self.say(f"{len(clips)} clips to learn from, {len(held_out)} held out")
        self._dev = [c.file for c in held_out]
        self._sets: dict[str, list[Clip]] = {}
        for clip in held_out:
            self._sets.setdefault(clip.source, []).append(clip)
        self._pool = Pool(config, run.tokenizer, rare_words(run.text, clips), self.device, self.ranks.share)
        batches = config.batches
        self._pool.add_clips([*clips, *telephoned(clips, batches.telephone_share, self.seed, batches.planners)])
        self._pool.add_sounds(MUSIC, generated_music(120, 24.0, self.seed))
        if run.synthetic is not None:
            self._pool.add_synthetic(run.synthetic)
        self._prompt = Prompt(Tokenizer.from_file(str(run.tokenizer)))
        self._model = PocketASR(config.shape, config.regularisation)
        self._model.load_state_dict(load_weights(run.start / WEIGHTS))
        taught = self._learn_from(run.teacher) if run.teacher else None
        self._model.to(self.device).train()
        self._mel = LogMel().to(self.device)
        self._optimizer = Optimizer(self._model, config.optimisation, config.regularisation.weight_decay)
        told = self.take({"model": self._model, "optimizer": self._optimizer})
        self._heard: float = told.get("heard", 0.0)  # hours
        self._step = Step(config, self._model, self._mel, self._optimizer, self._pool.audio, taught)
        if self.device.type == "cuda":
            compile_layers(self._model)
        self._plans: Iterator[Plan] = iter(())
        self._aligned = 0
        hours = {k: round(v, 2) for k, v in self._pool.hours.items()}
        self.say(f"hours {hours}; clips held out { {k: len(v) for k, v in self._sets.items()} }")
        size = sum(p.numel() for p in self._model.parameters()) / 1e6
        self.say(f"{size:.2f} M parameters on {self.device}")

    def _learn_from(self, teacher: Path) -> Tensor:
        """Its states of all audio, and a head for them."""
        from training.asr.teacher import load_teacher, states

        found = states(load_teacher(teacher, self.device), self._pool.audio, self._pool.used)
        self._model.add_taught(found.shape[1])
        return found

    def step(self, done: float) -> Tensor:
        if (due := sum(done >= at for at in _ALIGN_AT)) > self._aligned:  # one is at the beginning
            self._aligned = due
            self.guard("alignment", self._align)
            self._plans = self._pool.begin()
        self._pool.progress.value = done
        first, final = self.config.batches.strength
        self._step.strength.fill_(first + (final - first) * done)
        o = self.config.optimisation
        self._optimizer.rate(rate_at(done, self.count, 1.0, o.final_rate, o.warmup_steps, o.constant_until))
        plan = next(self._plans)
        report = self._step.gradients(plan)
        self.ranks.mean(self._optimizer.gradient)
        self._step.update()
        self._heard += float(plan.length.sum()) / RATE / 3600 * VIEWS * self.ranks.share[1]
        return torch.cat([report, self._optimizer.norm[None]])

    def _align(self) -> None:
        try:
            cut_at_words(self._model, self._mel, self._prompt, self._pool.audio, self._pool.real)
        finally:
            self._model.train()

    def write(self, *, last: bool) -> None:
        save_weights(shipping(averaged(self._model, self._optimizer.average)), self.given.out / WEIGHTS)
        if last:
            save_weights(shipping(self._model.state_dict()), self.given.out / LAST / WEIGHTS)

    def score(self, *, last: bool) -> dict[str, Any]:
        """Word errors in percent, of the averaged weights and, at the end, of all clips and of the present weights
        too."""
        mine = {k: v.detach().clone() for k, v in self._model.state_dict().items()}
        sets = {name: clips[: None if last else _QUICK] for name, clips in self._sets.items()}
        try:
            self._model.load_state_dict(averaged(self._model, self._optimizer.average))
            row: dict[str, Any] = {"hours": self._heard} | self._word_errors(sets)
        finally:
            self._model.load_state_dict(mine)
            self._model.train()
        if last:
            row["without_average"] = self._word_errors(sets)
        return row

    def _word_errors(self, sets: dict[str, list[Clip]]) -> dict[str, dict[str, float]]:
        return score(self._model, self._mel, self._prompt, sets, self.device)

    def about(self) -> dict[str, Any]:
        return {"hours": self._pool.hours, "heard": self._heard, "dev": self._dev}
