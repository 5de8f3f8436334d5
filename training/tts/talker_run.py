"""A run of talker training on the codes of all voices.

What stands in `out` beside what `progress.py` names: model.safetensors (newest).
"""

from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from training.checkpoint import WEIGHTS
from training.progress import Progress, rate_at
from training.ranks import Ranks
from training.tts.checkpoint import save_talker
from training.tts.codes import concatenate, load_codes
from training.tts.config import Config
from training.tts.graph import autocast
from training.tts.prompt import Row
from training.tts.references import References
from training.tts.rows import Bucket, laid_out, make_buckets, make_rows
from training.tts.speech import shards
from training.tts.talker import Talker
from training.tts.talker_step import MEASURES, TalkerStep, losses

_REPORT = 300  # steps
_TEST_ROWS = 200
CLONED = "cloned"  # the score of those who are heard


@dataclass(frozen=True)
class TalkerRun:
    """What a run is given besides the configuration. speech: folders of the shards that the codes stand for, in which
    speakers other than our own are heard; without it these are left out.
    """

    codes: tuple[Path, ...]
    tokenizer: Path
    out: Path
    seconds: float
    speech: tuple[Path, ...] = ()
    steps: int = 10**9
    evaluate_every: int = 1500
    device: str = "cuda"
    graphs: bool = True


class TalkerTrainer:
    """Owns the talker, its step and the progress of one run."""

    def __init__(self, config: Config, run: TalkerRun) -> None:
        self.config, self.run = config, run
        self.ranks = Ranks(run.device)
        self.device = self.ranks.device
        self.progress = Progress("talker", run.out, MEASURES, self.device)
        t = config.talker_training
        torch.manual_seed(t.seed)
        self._rng = np.random.default_rng(t.seed)  # every process takes rows of one length
        torch.backends.cuda.matmul.allow_tf32 = True
        tokenizer = Tokenizer.from_file(str(run.tokenizer))
        codes = concatenate([load_codes(path) for path in run.codes])
        references = References(shards(run.speech), config.speakers, self.device)
        rows = make_rows(codes, config, tokenizer, held_out=False, references=references)
        own = sum(row.place is None for row in rows)
        self._say(f"{len(rows)} rows of {len(codes.text)} utterances, {own} of our own voices")
        self.buckets = make_buckets(rows, config, tokenizer, self.device, references)
        if not self.buckets:
            raise ValueError(f"codes: no rows of {', '.join(config.speakers)} or of speakers in speech")
        held = [i for i, held_out in enumerate(codes.held_out) if held_out] if self.ranks.first else []
        tests = defaultdict[str, list[Row]](list)
        for i, row in laid_out(codes, held, config, tokenizer, references).items():
            tests[CLONED if row.place else codes.speaker[i]].append(row)
        self.tests = {
            name: make_buckets(found[:_TEST_ROWS], config, tokenizer, self.device, references)
            for name, found in tests.items()
        }
        self.talker = Talker(config.talker, config.codec, config.speaker, t.dropout).to(self.device).train()
        self._say(f"rows by length: { {b.length: b.rows for b in self.buckets} }")
        torch.manual_seed(t.seed + self.ranks.share[0])
        state = self.progress.take()
        self.step = TalkerStep(self.talker, t, self.buckets, self.ranks, graphs=run.graphs, state=state)
        self._say("steps ready")

    def _say(self, text: str) -> None:
        if self.ranks.first:
            self.progress.log(text)

    def _choose(self) -> Bucket:
        weight = np.array([b.rows * b.length for b in self.buckets], float)
        return self.buckets[int(self._rng.choice(len(self.buckets), p=weight / weight.sum()))]

    def train(self) -> None:
        """Until the seconds or steps are over; always leaves a checkpoint."""
        t, run, progress = self.config.talker_training, self.run, self.progress
        progress.begin()
        report = _REPORT if self.device.type == "cuda" else 5
        while progress.count < run.steps and (spent := self.ranks.same(progress.seconds)) < run.seconds:
            count = progress.count
            done = max(spent / run.seconds, count / run.steps)
            self.step.rate(rate_at(done, count, t.rate, t.final_rate, t.warmup_steps))
            self.step.guide_weight.fill_(max(0.0, 1 - count / t.guide_steps))
            self.step.own_share.fill_(min(1.0, count / max(t.own_steps, 1)))
            self.step.run(self._choose())
            progress.stepped()
            if self.ranks.first and progress.count % report == 0:
                progress.report(f"({100 * done:.0f} %) {progress.count / progress.seconds:.1f}/s", self.step.measures)
            if progress.count % run.evaluate_every == 0:
                self._evaluate()
        self._evaluate()
        self.ranks.end()

    @torch.no_grad()
    def _evaluate(self) -> None:
        """Scores of held-out speech, teacher-forced and looking back on the model's own codes; saves. Of the
        first process alone."""
        if not self.ranks.first:
            return
        self.talker.eval()
        scores: dict[str, dict[str, Any]] = {}
        for name, buckets in self.tests.items():
            found = [(b.rows, self._score(b)) for b in buckets]
            rows = sum(n for n, _ in found)
            mean = [sum(n * s[i] for n, s in found) / rows for i in range(len(found[0][1]))]
            half = len(mean) // 2
            for told, values in (("", mean[:half]), (" on own codes", mean[half:])):
                scores[name + told] = {
                    "first": values[0], "rest": values[1], "accuracy": [round(v, 4) for v in values[2:]],
                }  # fmt: skip
                hits = " ".join(f"{v:.3f}" for v in values[2:])
                self.progress.log(f"held-out {name}{told}: CE {values[0]:.3f} + {values[1]:.3f}, accuracy {hits}")
        self.talker.train()
        self.progress.scores.append({"step": self.progress.count, "scores": scores})
        save_talker(self.talker, self.run.out / WEIGHTS)
        self.progress.save(self.step.state(), {"config": asdict(self.config)})

    def _score(self, bucket: Bucket) -> list[float]:
        batch = bucket.batch(torch.arange(bucket.rows, device=self.device), None)
        scores: list[float] = []
        for own in (None, torch.ones(len(batch.text), device=self.device)):
            with autocast(self.device):
                found = losses(self.talker, batch, self.config.talker_training, noise=False, own=own)
            scores += [float(found.first), float(found.rest), *found.hits.tolist()]
        return scores
