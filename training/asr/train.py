"""The training run: a fixed number of seconds on one device, evaluated and saved on the way.

What stands in `out` after each evaluation: float16 averaged weights, run.json (history, scores, settings) and state.pt,
everything needed to go on with the same run. At the end also the last weights without average.
"""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.asr.align import word_cuts
from training.asr.augment import generated_music
from training.asr.checkpoint import begin_with, save_weights
from training.asr.config import Config
from training.asr.evaluate import score
from training.asr.labels import relabelled, split
from training.asr.model import PocketASR
from training.asr.optimizer import Optimizer, averaged
from training.asr.plan import MUSIC
from training.asr.pool import Pool
from training.asr.prompt import Prompt
from training.asr.record import REPORT, Log, Record
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.shards import RATE, Clip, read_shards
from training.transcript import transcript

_AVERAGE_FROM = 1000  # steps: the average of a fresh run forgets what was before
_ALIGN_AT = (0.3, 0.6)  # of the run
_EVALUATE_EVERY = 240.0  # seconds
_QUICK, _ALL = 120, 100_000  # clips of a set, on the way and at the end
_RARE = 30  # a word that occurs less often is one
LAST = "last"  # folder of the weights at the end, without average


@dataclass(frozen=True)
class Run:
    """What a run is given besides the configuration of the model."""

    shards: tuple[Path, ...]
    test: tuple[Path, ...]
    text: Path
    tokenizer: Path
    out: Path
    seconds: float
    synthetic: Path | None = None
    labels: Path | None = None  # texts of clips, by file, instead of those of their index (labels.py)
    start: Path | None = None  # checkpoint folder to begin from
    resume: Path | None = None  # state.pt to go on from
    device: str = "cuda"
    graphs: bool = True


def schedule(progress: float, step: int, config: Config) -> float:
    """Warm-up by steps, then constant, then a cosine on the wall clock: 0..1."""
    o = config.optimisation
    late = max(0.0, (progress - o.constant_until) / (1 - o.constant_until))
    cosine = o.final_rate + (1 - o.final_rate) * 0.5 * (1 + math.cos(math.pi * min(late, 1.0)))
    return min(1.0, (step + 1) / o.warmup_steps) * cosine


def rare_words(text: Path, clips: list[Clip]) -> list[str]:
    """Words that occur, but seldom: what keyterms are made of."""
    counts: Counter[str] = Counter()
    for line in (*text.read_text().splitlines(), *(clip.text for clip in clips)):
        counts.update(transcript(line).split())
    return sorted(w for w, n in counts.items() if n < _RARE and len(w) > 3)


class Training:
    """A run."""

    def __init__(self, config: Config, run: Run, now: Callable[[], float] = time.monotonic) -> None:
        """``now``: the clock, in seconds, that the run's length and schedule follow.

        Raises:
            ValueError: the weights to begin from are not of this shape.
        """
        self._config, self._run, self._now = config, run, now
        self._began = self._now()
        clips = relabelled(read_shards(run.shards), run.labels)
        held_out, clips = split(clips, config.batches.dev_every)
        self._say(f"{len(clips)} clips to learn from, {len(held_out)} held out")
        self._dev = [c.file for c in held_out]
        self._sets: dict[str, list[Clip]] = {}
        for name, clip in [(c.source, c) for c in read_shards(run.test)] + [(f"{c.source} dev", c) for c in held_out]:
            self._sets.setdefault(name, []).append(clip)
        self._fresh = run.start is None and run.resume is None
        self._device = torch.device(run.device)
        easy = config.batches.easy_steps if self._fresh else 0
        self._pool = Pool(config, run.tokenizer, rare_words(run.text, clips), self._device, easy_steps=easy)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self._pool.add_clips(clips)
        self._pool.add_sounds(MUSIC, generated_music(120, 24.0, config.optimisation.seed))
        if run.synthetic is not None:
            self._pool.add_synthetic(run.synthetic)
        self._prompt = Prompt(Tokenizer.from_file(str(run.tokenizer)))
        torch.manual_seed(config.optimisation.seed)
        self._model = PocketASR(config.shape, config.regularisation)
        if run.start is not None:
            begin_with(self._model, run.start)
        self._model.to(self._device)
        self._mel = LogMel().to(self._device)
        self._optimizer = Optimizer(self._model, config.optimisation, config.regularisation.weight_decay)
        self._record = Record()
        if run.resume is not None:
            state = torch.load(run.resume, map_location=self._device, weights_only=True)
            self._model.load_state_dict(state["model"])
            self._optimizer.load_state(state["optimizer"])
            self._record.take(state)
        run.out.mkdir(parents=True, exist_ok=True)
        hours = {k: round(v, 2) for k, v in self._pool.hours.items()}
        self._say(f"hours {hours}; test clips {dict(zip(self._sets, map(len, self._sets.values()), strict=True))}")
        size = sum(p.numel() for p in self._model.parameters()) / 1e6
        self._say(f"{size:.2f} M parameters on {self._device}")

    def _say(self, text: str) -> None:
        print(f"[{self._now() - self._began:7.1f} s] {text}", flush=True)

    def _guard(self, what: str, do: Callable[[], None]) -> None:
        """Side work (evaluation, alignment) must not end a run."""
        try:
            do()
        except Exception as error:
            self._say(f"{what} failed: {error!r}")

    def train(self) -> None:
        """Run until the time is up."""
        config, run = self._config, self._run
        graphs = run.graphs and self._device.type == "cuda"
        step = Step(config, self._model, self._mel, self._optimizer, self._pool.audio, graphs=graphs)
        if graphs:
            compile_layers(self._model)
        self._pool.begin()
        self._model.train()
        start = self._now() - self._record.spent
        log = Log(self._device, self._now())
        evaluated, aligned = self._now(), 0
        # A run from weights knows the words already: aligned spans are wanted at once.
        align_at = _ALIGN_AT if self._fresh else (0.0, *_ALIGN_AT)
        while (spent := self._now() - start) < run.seconds:
            progress = spent / run.seconds
            if aligned < len(align_at) and progress >= align_at[aligned]:
                aligned += 1
                self._guard("alignment", self._align)
            self._set(step, progress)
            before = self._now()
            plan = self._pool.next()
            log.waited += self._now() - before
            report = step.gradients(plan)
            step.update()
            heard = float(plan.length.sum()) / RATE / 3600 * config.batches.views
            log.add(torch.cat([report, self._optimizer.norm[None]]), heard)
            self._record.step, self._record.heard = self._record.step + 1, self._record.heard + heard
            if self._fresh and self._record.step == _AVERAGE_FROM:
                self._optimizer.restart_average()
            if self._record.step % REPORT:
                continue
            self._log(log, self._now() - start)
            if self._now() - evaluated > _EVALUATE_EVERY and run.seconds - spent > 60:
                self._record.spent = self._now() - start
                self._guard("evaluation", lambda: self._evaluate(_QUICK))
                evaluated = self._now()
            log.began = self._now()
        self._record.spent = self._now() - start
        self._say(f"{self._record.step} steps, {self._record.heard:.0f} h heard in {self._record.spent:.0f} s")
        self._guard("saving", self._save)
        self._guard("evaluation", lambda: self._evaluate(_ALL))
        self._say("done")
        self._pool.close()

    def _set(self, step: Step, progress: float) -> None:
        """Everything that changes in the course of a run."""
        config, reg = self._config, self._config.regularisation
        self._pool.progress.value = progress
        ramp = min(1.0, self._record.step / max(config.batches.augment_ramp, 1)) if self._fresh else 1.0
        late = (self._record.step - reg.consistency_from) / max(reg.consistency_from, 1) if self._fresh else 1.0
        first, final = config.batches.strength
        step.strength.fill_(ramp * (first + (final - first) * progress))
        step.consistency.fill_(reg.consistency * min(max(late, 0.0), 1.0))
        step.ctc_weight = reg.ctc * (1.0 if progress < reg.ctc_until else 0.5) if self._fresh else reg.ctc_continued
        self._optimizer.rate.fill_(schedule(progress, self._record.step, config))

    def _log(self, log: Log, spent: float) -> None:
        step, heard = self._record.step, self._record.heard
        means = log.means()
        self._record.history.append([step, spent, *means])
        if step % (5 * REPORT) == 0 or step <= 5 * REPORT:
            made = sum(self._pool.hours.get(v, 0.0) for v in self._config.voices)
            line = log.line(means, self._now(), float(self._optimizer.rate), heard)
            self._say(f"step {step} {line}, synthetic {made:.0f} h")
        log.clear()

    def _align(self) -> None:
        began = self._now()
        self._pool.align(word_cuts(self._model, self._mel, self._prompt, self._pool.audio, self._pool.real))
        self._say(f"aligned {len(self._pool.real)} real utterances in {self._now() - began:.1f} s")

    def _evaluate(self, limit: int) -> None:
        """Score the averaged weights (and, in the last evaluation, the present ones too) on the test sets; save."""
        began = self._now()
        mine = {k: v.detach().clone() for k, v in self._model.state_dict().items()}
        sets = {k: v[:limit] for k, v in self._sets.items()}
        self._model.load_state_dict(averaged(self._model, self._optimizer.average))
        found, pairs = score(self._model, self._mel, self._prompt, sets, self._device)
        self._model.load_state_dict(mine)
        raw = score(self._model, self._mel, self._prompt, sets, self._device)[0] if limit >= _ALL else None
        row = self._record.evaluated(limit, found, raw)
        self._model.train()
        self._say(f"WER {row['wer']} CTC {row['ctc_wer']} {row.get('wer_without_average', '')}")
        for name, some in pairs.items():
            for reference, text in some[:2]:
                print(f"    {name}: {reference[:100]}\n    {' ' * len(name)}  {text[:100]}")
        if raw is not None:
            save_weights(mine, self._run.out / LAST)
        self._save()
        self._say(f"evaluated and saved in {self._now() - began:.1f} s")

    def _save(self) -> None:
        out = self._run.out
        save_weights(averaged(self._model, self._optimizer.average), out)
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state()} | self._record.state()
        torch.save(state, out / "state.tmp")
        (out / "state.tmp").rename(out / "state.pt")
        started = self._run.start is not None
        self._record.write(out, asdict(self._config), self._pool.hours, self._dev, started=started)
