"""The training run: a fixed number of seconds on one to eight devices, evaluated and saved on the way.

What stands in `out` after each evaluation: float16 averaged weights in parts, run.json (history, scores, settings)
and state.pt, everything needed to go on with the same run. At the end also the last weights without average.
"""

import time
from collections.abc import Callable
from dataclasses import asdict

import torch
from tokenizers import Tokenizer

from training.asr.align import word_cuts
from training.asr.augment import generated_music
from training.asr.checkpoint import begin_with, save_weights
from training.asr.config import Config
from training.asr.evaluate import score
from training.asr.labels import relabelled
from training.asr.log import REPORT, Log
from training.asr.material import evaluation_sets, rare_words, split
from training.asr.model import PocketASR
from training.asr.optimizer import Optimizer, averaged
from training.asr.plan import MUSIC
from training.asr.pool import Pool
from training.asr.processes import Processes
from training.asr.prompt import Prompt
from training.asr.record import Record
from training.asr.run import Run, schedule
from training.asr.spectrogram import LogMel
from training.asr.step import Step, compile_layers
from training.shards import RATE, read_shards

_AVERAGE_FROM = 1000  # steps: the average of a fresh run forgets what was before
_ALL = 100_000  # clips
LAST = "last"  # folder of the weights at the end, without average
_REHEARSALS = 200  # plans at most before the first step of several processes


class Training:
    """One process of a run."""

    def __init__(self, config: Config, run: Run, now: Callable[[], float] = time.time) -> None:
        """``now``: the clock, in seconds since the epoch, that the run's length and schedule follow.

        Raises:
            ValueError: the weights to begin from are not of this shape.
        """
        self._config, self._run, self._now = config, run, now
        self._all = Processes()
        self._began = self._now()
        clips = relabelled(read_shards(run.shards, run.processes), run.labels)
        held_out, clips = split(clips, config.batches.dev_every)
        self._say(f"{len(clips)} clips to learn from, {len(held_out)} held out")
        self._dev = [c.file for c in held_out]
        self._sets = evaluation_sets(read_shards(run.test, run.processes), held_out) if self._all.rank == 0 else {}
        fresh = run.start is None and run.resume is None
        self._device = self._all.device(run.device)
        self._pool = Pool(
            config,
            run.tokenizer,
            rare_words(run.text, clips),
            self._device,
            config.batches.pool_hours,
            easy_steps=config.batches.easy_steps if fresh else 0,
            rank=self._all.rank,
            world=self._all.count,
        )
        self._fresh = fresh
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.backends.cudnn.benchmark = True
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self._all.join(self._device)
        self._pool.add_clips(clips)
        self._pool.add_sounds(MUSIC, generated_music(120, 24.0, config.optimisation.seed))
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
        torch.manual_seed(config.optimisation.seed + 1000 * (self._all.rank + 1))
        if run.synthetic is not None:
            self._pool.take_synthetic(run.synthetic, 10_000)
            while self._pool.take_synthetic(run.synthetic, 10_000, wait=True) == 0:
                if self._pool.full or run.resume:
                    break
                time.sleep(1)
        if self._all.rank == 0:
            run.out.mkdir(parents=True, exist_ok=True)
        hours = {k: round(v, 2) for k, v in self._pool.hours.items()}
        self._say(f"hours {hours}; test clips {dict(zip(self._sets, map(len, self._sets.values()), strict=True))}")
        size = sum(p.numel() for p in self._model.parameters()) / 1e6
        self._say(f"{size:.2f} M parameters on {self._device} x {self._all.count}")

    def _say(self, text: str) -> None:
        if self._all.rank == 0:
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
        if run.compile:
            compile_layers(self._model)
        self._pool.begin()
        self._model.train()
        self._rehearse(step)
        start = self._now() - self._record.spent
        seconds = run.until - start if run.until else run.seconds
        log = Log(self._device, self._now())
        evaluated, aligned = self._now(), 0
        # A run from weights knows the words already: aligned spans are wanted at once.
        align_at = run.align_at if self._fresh else (0.0, *run.align_at)
        while True:
            spent, seconds = self._all.clock(self._now() - start, seconds, self._record.step)
            if spent >= seconds:
                break
            progress = spent / seconds
            if aligned < len(align_at) and progress >= align_at[aligned]:
                aligned += 1
                self._guard("alignment", self._align)
            self._set(step, progress)
            before = self._now()
            plan = self._pool.next()
            log.waited += self._now() - before
            report = step.gradients(plan)
            self._all.average(self._optimizer.gradient)
            step.update()
            heard = float(plan.length.sum()) / RATE / 3600 * config.batches.views * self._all.count
            log.add(torch.cat([report, self._optimizer.norm[None]]), heard)
            self._record.step, self._record.heard = self._record.step + 1, self._record.heard + heard
            if self._fresh and self._record.step == _AVERAGE_FROM:
                self._optimizer.restart_average()
            if self._record.step % REPORT:
                continue
            self._log(log, self._now() - start)
            self._compare()
            if run.synthetic is not None:
                self._pool.take_synthetic(run.synthetic)
            if (run.out / "until").exists():  # moves the end of a run that is under way
                seconds = float((run.out / "until").read_text()) - start
            if self._now() - evaluated > run.evaluate_every and seconds - spent > 60:
                self._record.spent = self._now() - start
                self._guard("evaluation", lambda: self._evaluate(run.quick))
                evaluated = self._now()
            log.began = self._now()
        self._record.spent = self._now() - start
        self._guard("comparison", self._compare)
        self._say(f"{self._record.step} steps, {self._record.heard:.0f} h heard in {self._record.spent:.0f} s")
        self._guard("saving", self._save)
        self._guard("evaluation", lambda: self._evaluate(_ALL))
        self._say("done")
        self._pool.close()

    def _rehearse(self, step: Step) -> None:
        """Several processes record all their graphs before the first step: a process that recorded one later would
        keep the others waiting, each at another time. Nothing is learnt from these batches. A fresh run begins with
        easy ones: the shapes that come after those are recorded when they come."""
        if self._all.alone:
            return
        batches = self._config.batches
        wanted = len(batches.row_seconds) * (2 if batches.context_share else 1)
        if self._fresh and batches.easy_steps:
            wanted = len(batches.row_seconds[:2])
        for _ in range(_REHEARSALS):
            step.gradients(self._pool.next())
            if not 0 <= step.shapes() < wanted:
                break
        self._all.same(self._model)

    def _compare(self) -> None:
        """Where the processes' weights are no longer the same, the log says so and all go on with the first one's."""
        apart = self._all.apart(self._optimizer.parameters)
        if apart:
            self._say(
                f"step {self._record.step}: WARNING: the processes' weights differ ({apart:.3g}); the first one's go on"
            )
            self._all.same(self._model)

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
        self._optimizer.rate.fill_(schedule(progress, self._record.step, config) * self._run.rate)

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
        if self._all.rank:
            return
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
            save_weights(mine, self._run.out / LAST, parts=True)
        self._save()
        self._say(f"evaluated and saved in {self._now() - began:.1f} s")

    def _save(self) -> None:
        if self._all.rank:
            return
        out = self._run.out
        save_weights(averaged(self._model, self._optimizer.average), out, parts=True)
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state()} | self._record.state()
        torch.save(state, out / "state.tmp")
        (out / "state.tmp").rename(out / "state.pt")
        started = self._run.start is not None
        self._record.write(out, asdict(self._config), self._pool.hours, self._dev, started=started)
