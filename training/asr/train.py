"""A stretch of the training run, evaluated and saved on the way.

A run is as many stretches as there are half hours of a machine. Its rates and stages follow the audio that was heard,
and what a stretch leaves in `out/state` is all that the next one needs. At every save the run itself goes on with what
it wrote (weights rounded to float16, momenta to int8), so that a run which was cut off there goes on exactly as it
would have. A stretch ends with a rate that falls to nothing, and leaves what could ship in `out/weights`. States tell
how high the rate was, and whoever goes on from one begins at that rate: the next stretch takes the one before the fall,
and a stretch that broke its last one.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.asr.augment import generated_music
from training.asr.checkpoint import shape_of
from training.asr.config import Config
from training.asr.evaluate import distance, score
from training.asr.labels import Labels, split
from training.asr.model import PocketASR, shipping
from training.asr.optimizer import Optimizer
from training.asr.plan import MUSIC, RARE, Plan
from training.asr.pool import Pool
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.asr.teacher import load_encoder
from training.asr.telephone import telephoned
from training.checkpoint import CONFIG, TOKENIZER, WEIGHTS, load_weights, write_json
from training.parts import TOLD, load_parts, save_parts
from training.run import CANDIDATE, STATE, Given, Trainer
from training.shards import Clip, read_shards
from training.speech.script import load_scripts
from training.transcript import transcript

MEASURES = ("ce", "accuracy", "views", "states", "stem", "ctc", "gradient norm")
# How many clips of a set are scored on the way, and the sets that are; at the end all are.
_QUICK = 60
_JUDGED = "librispeech", "common_voice_v1", "common_voice", "speechocean762"
# Seconds of a stretch that are left when the rate has fallen, and those that a state and its scores take.
_ENDING, _SAVING = 10.0, 4.0
_NOTHING = 1e-6  # A rate that is this part of its peak has fallen.
_GO_ON, _FALL, _STOP = 0.0, 1.0, 2.0


@dataclass(frozen=True, kw_only=True)
class HearingRun(Given):
    """What a stretch is given besides the configuration of the model."""

    shards: tuple[Path, ...]
    script: tuple[Path, ...]  # What the generated speech says, by which it is known what words are rare.
    start: Path  # Checkpoint folder to begin from where there is no state.
    teacher: Path
    synthetic: Path | None = None
    labels: tuple[Path, ...] = ()
    ready: Path | None = None  # A file that is there once labels and generated speech are.
    fall: bool = True  # Whether the stretch ends with weights that could ship.


def rare_words(lines: Sequence[str], clips: list[Clip]) -> dict[str, int]:
    """Give the words that occur, but seldom, and how often each does: keyterms are made of them."""
    counts: Counter[str] = Counter()
    for line in (*lines, *(clip.text for clip in clips)):
        counts.update(transcript(line).split())
    return {w: n for w, n in sorted(counts.items()) if n < RARE and len(w) > 3}


def sized(config: Config, start: Path, scale: float) -> Config:
    """Give the configuration with the dimensions of a checkpoint folder, and with steps of another size."""
    size = round(config.batches.seconds_per_step * scale)
    shape = shape_of(json.loads((start / CONFIG).read_text()))
    return replace(config, shape=shape, batches=replace(config.batches, seconds_per_step=size))


class HearingTrainer(Trainer):
    """One stretch of a run."""

    def __init__(self, config: Config, run: HearingRun) -> None:
        """The dimensions are those of the checkpoint that the run begins from.

        Raises:
            RuntimeError: the state is not of that shape.
        """
        config = sized(config, run.start, run.scale)
        super().__init__("run", run, config, MEASURES, config.optimisation.seed)
        self._run, batches, tokenizer = run, config.batches, run.start / TOKENIZER
        held_out, clips = split(read_shards(run.shards, batches.planners), batches.dev_every, batches.dev_readers)
        self.say(f"{len(clips)} clips to learn from, {len(held_out)} held out")
        heard = [*clips, *telephoned(clips, batches.telephone_share, self.seed, batches.planners)]
        music = generated_music(60, 24.0, self.seed)
        self._await(run.ready)
        labels = Labels.read(path for path in run.labels if path.exists())  # one that failed left no file
        heard = labels.lent(heard)
        self._dev = [c.file for c in held_out]
        self._sets: dict[str, list[Clip]] = {}
        for clip in labels.lent(held_out):
            if clip.text:
                self._sets.setdefault(clip.source, []).append(clip)
        rare = rare_words(load_scripts(run.script).texts, heard[: len(clips)])
        self._pool = Pool(config, tokenizer, rare, self.device, self.ranks.share)
        self._pool.add_clips(heard, labels.cuts)
        self._pool.add_sounds(MUSIC, music)
        if run.synthetic is not None:
            self._pool.add_synthetic(run.synthetic)
        self.say(f"hours { {k: round(v, 2) for k, v in self._pool.hours.items()} }")
        self._prompt = Prompt(Tokenizer.from_file(str(tokenizer)))
        self._model = PocketASR(config.shape, config.regularisation)
        if (before := self._state_before()) is None:
            self._model.load_state_dict(load_weights(run.start / WEIGHTS))
        teacher = load_encoder(run.teacher, self.device)
        self._model.add_taught(teacher.layer_norm.weight.shape[0], len(teacher.layers))
        self._teacher = teacher
        self._model.to(self.device).train()
        self._mel = LogMel(config.shape.mel_bins).to(self.device)
        self._optimizer = Optimizer(self._model, config.optimisation, config.regularisation.weight_decay)
        self._step = Step(config, self._model, self._mel, self._optimizer, self._pool.audio, teacher)
        if self.device.type == "cuda":
            compile_layers(self._model)
        # What is heard, where the rate begins to fall and how long it does count hours; the pace, hours a second.
        self.heard, self._falls_from, self._falls, self._pace = 0.0, float("inf"), 1.0, 0.0
        self._high = 1.0  # The part of its peak from which the rate falls.
        self._go_on(before)
        self._plans: Iterator[Plan] = iter(())
        size = sum(p.numel() for p in self._model.parameters()) / 1e6
        self.say(f"{size:.2f} M parameters on {self.device}")
        self.say(f"clips held out { {k: len(v) for k, v in self._sets.items()} }")

    @property
    def _hours(self) -> float:
        """The hours that a step hears, all ranks together."""
        return self.config.batches.seconds_per_step * self.ranks.share[1] / 3600

    @property
    def _rate(self) -> float:
        """The part of its peak that the rate has after the warm-up."""
        return self._high * max(1.0 - max(self.heard - self._falls_from, 0.0) / self._falls, 0.0)

    def step(self, done: float) -> Tensor:
        """Make a step. done: how far the rate has fallen, 0 before it does."""
        o, (first, last) = self.config.optimisation, self.config.regularisation.taught
        rate = min((self.heard + self._hours) / max(o.warmup_hours, 1e-9), 1.0) * (1.0 - done)
        reading = min((self.heard + self._hours) / max(o.text_warmup_hours, 1e-9), 1.0)
        self._optimizer.rate(rate, reading)
        self._step.lead.fill_(first + (last - first) * done)
        plan = next(self._plans)
        report = self._step.gradients(plan)
        self.ranks.mean(self._optimizer.gradient)
        self._step.update()
        self.heard += self._hours
        return torch.cat([report, self._optimizer.norm[None]])

    def train(self) -> None:
        """Train until the seconds are over or the rate has fallen, and leave a state in any case."""
        o, first, begun = self.config.optimisation, self.count, self.count
        saves = o.save_hours * self.ranks.share[1]
        self._plans = self._pool.begin(self.count)
        sums, reported, at = torch.zeros(len(self._measures), device=self.device), self.seconds, self.heard
        while (order := self.ranks.same(self._order())) != _STOP:
            if order == _FALL and self._falls_from == float("inf"):
                self.save()
                self._falls_from = self.heard
                self._falls = self.ranks.same(min(o.fall_hours, self._left) if self.ranks.first else 0.0)
                self.say(f"the rate falls over {self._falls:.0f} h")
                reported, first, at = self.seconds, self.count, self.heard
                sums.zero_()
            if (rate := self._rate) < _NOTHING:
                break
            before = self.heard // saves
            sums += self.step(1.0 - rate)
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                # Without this the queue of kernels would decide when a run ends, and not the clock.
                torch.cuda.synchronize()
            if self.ranks.first and (steps := self.count - first) == self.report_every:
                # The first steps wait for compilers, so they do not tell the pace.
                if self.count > begun + 2 * self.report_every:
                    self._pace = max(self._pace, (self.heard - at) / (self.seconds - reported))
                self._report(1000 * (self.seconds - reported) / steps, sums / steps)
            if self.heard // saves > before:
                self.save()
            elif self.count - first < self.report_every:
                continue
            sums.zero_()
            reported, first, at = self.seconds, self.count, self.heard
        self._end()
        self.ranks.end()

    def _order(self) -> float:
        """Tell what to do now, as the clock of the first process says."""
        if self._rest <= 0:
            return _STOP
        return _FALL if self._run.fall and self._left < self.config.optimisation.fall_hours else _GO_ON

    @property
    def _rest(self) -> float:
        """The seconds that the stretch still has."""
        return min(self.given.seconds - self.seconds, self.given.until - time.time())

    @property
    def _left(self) -> float:
        """The hours that the rest of the stretch can still hear, once the pace is known."""
        if not self._pace:
            return float("inf")
        o, left = self.config.optimisation, max(self._rest - _ENDING, 1.0)
        return left / (1.0 / self._pace + _SAVING / (o.save_hours * self.ranks.share[1]))

    def save(self, *, last: bool = False) -> None:
        """Write a state, from which this run goes on too, and scores."""
        weights = {name: value.half() for name, value in self._model.state_dict().items()}
        kept = weights | self._optimizer.kept()
        if self.ranks.first:
            told = {"steps": self.count, "heard": self.heard, "rate": self._rate}
            save_parts(self.given.out / STATE, kept, told | self._about())
        self._take(kept)
        if self.ranks.first:
            self.guard("evaluation", lambda: self._score(last))
            self._tell()

    def _take(self, kept: dict[str, Tensor]) -> None:
        """Go on with what a state holds. From here on each process draws for itself."""
        own = self._model.state_dict()
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(kept[name])
        self._optimizer.take(kept)
        torch.manual_seed((self.seed * 1_000_003 + self.count) * 100 + self.ranks.share[0])

    def _await(self, ready: Path | None) -> None:
        """Wait for a file, if one is given, as long as the stretch lasts: clips are decoded while others write labels
        and speak."""
        while ready is not None and not ready.exists() and self._rest > 0:
            time.sleep(0.5)

    def _state_before(self) -> Path | None:
        """Give the folder of the state to go on from: this stretch's own, if it was begun before, or the one given."""
        own = self.given.out / STATE
        return own if (own / TOLD).exists() else self._run.state

    def _go_on(self, folder: Path | None) -> None:
        """Take the state of the stretch before, if there is one."""
        if folder is None:
            torch.manual_seed(self.seed * 100 + self.ranks.share[0])
            return
        kept, told = load_parts(folder)
        self.count, self.heard, self._high = told["steps"], told["heard"], told.get("rate", 1.0)
        self.history, self.scores = told["history"], told["scores"]
        self._take(kept)
        self.say(f"going on after {self.count} steps, {self.heard:.0f} h heard")

    def _end(self) -> None:
        if self._falls_from == float("inf"):
            self.save(last=True)
        elif self.ranks.first:
            weights = {name: value.half() for name, value in shipping(self._model.state_dict()).items()}
            save_parts(self.given.out / CANDIDATE, weights, {"steps": self.count, "heard": self.heard})
            self.guard("evaluation", lambda: self._score(True))
            self._tell()

    def write(self, *, last: bool) -> None:
        """Nothing is written here: `save` writes states, and `_end` writes what could ship."""

    def score(self, *, last: bool) -> dict[str, Any]:
        """Give word errors in percent, at the end those of all clips held out, and how far the states are."""
        row: dict[str, Any] = {"hours": self.heard, "rate": round(self._rate, 3)}
        quick = {name: clips[:_QUICK] for name, clips in self._sets.items() if name in _JUDGED}
        sets = self._sets if last else quick
        try:
            found = row | score(self._model, self._mel, self._prompt, sets, self.device)
            return found | distance(self._model, self._mel, self._teacher, quick, self.device)
        finally:
            self._model.train()

    def _about(self) -> dict[str, Any]:
        return {"history": self.history, "scores": self.scores}

    def _tell(self) -> None:
        own = {"steps": self.count, "heard": self.heard, "seconds": self.seconds, "measures": self._measures}
        own |= {"hours": self._pool.hours, "dev": self._dev, "config": asdict(self.config)}
        write_json(self._told, own | self._about())
