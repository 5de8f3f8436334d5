"""The training run: a fixed number of seconds on one device or several, evaluated and saved on the way.

What stands in `out` after each evaluation beside what `progress.py` names: float16 averaged weights; at the end also
the last weights without average. run.json tells the files of the clips held out as `dev`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
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
from training.progress import Progress, rate_at
from training.ranks import Ranks
from training.shards import RATE, Clip, read_shards
from training.transcript import transcript

MEASURES = ("ce", "accuracy", "views", "taught", "ctc", "inner ctc", "gradient norm")
_REPORT = 100  # steps
_ALIGN_AT = (0.0, 0.3, 0.6)  # of the run
_EVALUATE_EVERY = 240.0  # seconds
_QUICK, _ALL = 120, 100_000  # clips of a set, on the way and at the end
LAST = "last"  # folder of the weights at the end, without average


@dataclass(frozen=True)
class Run:
    """What a run is given besides the configuration of the model."""

    shards: tuple[Path, ...]
    text: Path
    tokenizer: Path
    start: Path  # checkpoint folder to begin from
    out: Path
    seconds: float
    synthetic: Path | None = None
    teacher: Path | None = None  # model folder of Whisper small (teacher.py)
    labels: Path | None = None  # texts of clips, by file, instead of those of their index (labels.py)
    device: str = "cuda"
    graphs: bool = True


def rare_words(text: Path, clips: list[Clip]) -> dict[str, int]:
    """Words that occur, but seldom, and how often: what keyterms are made of."""
    counts: Counter[str] = Counter()
    for line in (*text.read_text().splitlines(), *(clip.text for clip in clips)):
        counts.update(transcript(line).split())
    return {w: n for w, n in sorted(counts.items()) if n < RARE and len(w) > 3}


class Training:
    """A run."""

    def __init__(self, config: Config, run: Run, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: the clock, in seconds, that the run's length and schedule follow.

        Raises:
            RuntimeError: the weights to begin from are not of this shape.
        """
        self._config, self._run = config, run
        self._ranks = Ranks(run.device)
        self._device = self._ranks.device
        self._progress = Progress("run", run.out, MEASURES, self._device, now)
        clips = relabelled(read_shards(run.shards, config.batches.planners), run.labels)
        held_out, clips = split(clips, config.batches.dev_every)
        self._say(f"{len(clips)} clips to learn from, {len(held_out)} held out")
        self._dev = [c.file for c in held_out]
        self._sets: dict[str, list[Clip]] = {}
        for clip in held_out:
            self._sets.setdefault(clip.source, []).append(clip)
        self._pool = Pool(config, run.tokenizer, rare_words(run.text, clips), self._device, self._ranks.share)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        batches, seed = config.batches, config.optimisation.seed
        self._pool.add_clips([*clips, *telephoned(clips, batches.telephone_share, seed, batches.planners)])
        self._pool.add_sounds(MUSIC, generated_music(120, 24.0, config.optimisation.seed))
        if run.synthetic is not None:
            self._pool.add_synthetic(run.synthetic)
        self._prompt = Prompt(Tokenizer.from_file(str(run.tokenizer)))
        torch.manual_seed(config.optimisation.seed)
        self._model = PocketASR(config.shape, config.regularisation)
        self._model.load_state_dict(load_weights(run.start / WEIGHTS))
        self._taught = self._learn_from(run.teacher) if run.teacher else None
        torch.manual_seed(config.optimisation.seed + self._ranks.share[0])
        self._model.to(self._device)
        self._mel = LogMel().to(self._device)
        self._optimizer = Optimizer(self._model, config.optimisation, config.regularisation.weight_decay)
        self._heard = 0.0  # hours
        state = self._progress.take()
        if state is not None:
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state(state["optimizer"])
            self._heard = state["heard"]
        hours = {k: round(v, 2) for k, v in self._pool.hours.items()}
        self._say(f"hours {hours}; clips held out { {k: len(v) for k, v in self._sets.items()} }")
        size = sum(p.numel() for p in self._model.parameters()) / 1e6
        self._say(f"{size:.2f} M parameters on {self._device}")

    def _learn_from(self, teacher: Path) -> Tensor:
        """Its states of all audio, and a head for them."""
        from training.asr.teacher import load_teacher, states

        found = states(load_teacher(teacher, self._device), self._pool.audio, self._pool.used)
        self._model.add_taught(found.shape[1])
        return found

    def _say(self, text: str) -> None:
        if self._ranks.first:
            self._progress.log(text)

    def _guard(self, what: str, do: Callable[[], None]) -> None:
        """Side work (evaluation, alignment) must not end a run."""
        try:
            do()
        except Exception as error:
            self._say(f"{what} failed: {error!r}")

    def train(self) -> None:
        """Run until the time is up."""
        config, run, progress = self._config, self._run, self._progress
        graphs = run.graphs and self._device.type == "cuda"
        step = Step(config, self._model, self._mel, self._optimizer, self._pool.audio, self._taught, graphs=graphs)
        if graphs:
            compile_layers(self._model)
        self._model.train()
        plans: Iterator[Plan] = iter(())
        aligned, sums = 0, torch.zeros(len(MEASURES), device=self._device)
        progress.begin()
        evaluated = reported = progress.seconds
        first = progress.count  # since the last report
        while (spent := self._ranks.same(progress.seconds)) < run.seconds:
            done = spent / run.seconds
            if (due := sum(done >= at for at in _ALIGN_AT)) > aligned:  # one is at the beginning
                aligned = due
                self._guard("alignment", self._align)
                plans = self._pool.begin()
            self._set(step, done)
            plan = next(plans)
            report = step.gradients(plan)
            self._ranks.mean(self._optimizer.gradient)
            step.update()
            progress.stepped()
            sums += torch.cat([report, self._optimizer.norm[None]])
            self._heard += float(plan.length.sum()) / RATE / 3600 * VIEWS * self._ranks.share[1]
            if self._ranks.first and progress.count % _REPORT == 0:
                steps = progress.count - first
                pace = 1000 * (spent - reported) / steps
                progress.report(f"{pace:.0f} ms/step, {self._heard:.0f} h heard,", sums / steps)
                sums.zero_()
                first = progress.count
                if spent - evaluated > _EVALUATE_EVERY and run.seconds - spent > 60:
                    self._guard("evaluation", lambda: self._evaluate(_QUICK))
                    evaluated = progress.seconds
                reported = progress.seconds
        self._say(f"{progress.count} steps, {self._heard:.0f} h heard")
        if self._ranks.first:
            self._guard("saving", self._save)
            self._guard("evaluation", lambda: self._evaluate(_ALL))
        self._ranks.end()

    def _set(self, step: Step, progress: float) -> None:
        """Everything that changes in the course of a run."""
        self._pool.progress.value = progress
        first, final = self._config.batches.strength
        step.strength.fill_(first + (final - first) * progress)
        o = self._config.optimisation
        rate = rate_at(progress, self._progress.count, 1.0, o.final_rate, o.warmup_steps, o.constant_until)
        self._optimizer.rate.fill_(rate)

    def _align(self) -> None:
        real = self._pool.real
        cut_at_words(self._model, self._mel, self._prompt, self._pool.audio, real)
        self._say(f"aligned {len(real)} real utterances")

    def _evaluate(self, limit: int) -> None:
        """Score the averaged weights (and, in the last evaluation, the present ones too) on at most `limit` clips of a
        set, word errors in percent; save."""
        progress = self._progress
        row: dict[str, Any] = {"step": progress.count, "seconds": progress.seconds, "hours": self._heard}
        mine = {k: v.detach().clone() for k, v in self._model.state_dict().items()}
        self._model.load_state_dict(averaged(self._model, self._optimizer.average))
        row |= self._score(limit)
        self._model.load_state_dict(mine)
        if limit >= _ALL:
            row["without_average"] = self._score(limit)
            save_weights(shipping(mine), self._run.out / LAST / WEIGHTS)
        self._model.train()
        progress.scores.append(row)
        self._say(f"WER {row['wer']} CTC {row['ctc_wer']} {row.get('without_average', '')}")
        self._save()

    def _score(self, limit: int) -> dict[str, dict[str, float]]:
        sets = {name: clips[:limit] for name, clips in self._sets.items()}
        return score(self._model, self._mel, self._prompt, sets, self._device)

    def _save(self) -> None:
        save_weights(shipping(averaged(self._model, self._optimizer.average)), self._run.out / WEIGHTS)
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state(), "heard": self._heard}
        about = {
            "config": asdict(self._config), "hours": self._pool.hours, "heard": self._heard, "dev": self._dev,
        }  # fmt: skip
        self._progress.save(state, about)
