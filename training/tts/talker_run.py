"""A run of talker training on the codes of all voices."""

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.learner import autocast
from training.run import CANDIDATE, Given, Trainer, rate_at
from training.tts.checkpoint import load_talker, save_talker
from training.tts.config import Config
from training.tts.prompt import Row
from training.tts.references import References
from training.tts.rows import Bucket, Layout
from training.tts.speech import concatenate, load, shards
from training.tts.talker import Talker
from training.tts.talker_step import MEASURES, TalkerStep, losses

_TEST_ROWS = 200
"""Rows of each voice by which a run is scored."""
CLONED = "cloned"  # The name of the score of those who are heard.


@dataclass(frozen=True, kw_only=True)
class TalkerRun(Given):
    """What a run is given besides the configuration. speech: folders of the shards that the codes stand for, in which
    speakers other than our own are heard; without it these are left out. start: folder `talker` of `training.tts
    shipped`, or `weights` of a run."""

    codes: tuple[Path, ...]
    tokenizer: Path
    speech: tuple[Path, ...] = ()
    start: Path | None = None


class TalkerTrainer(Trainer):
    """Owns the talker and its steps."""

    # Seconds; a score takes 12 of them.
    save_every = 180.0

    def __init__(self, config: Config, run: TalkerRun) -> None:
        t = config.talker_training
        sizes = {name: round(getattr(t, name) * run.scale) for name in ("positions", "predictor_frames")}
        config = replace(config, talker_training=(t := replace(t, **sizes)))
        super().__init__("talker", run, config, MEASURES, t.seed)
        # Every process draws the same lengths, so that all take rows of one length.
        self._rng = np.random.default_rng(t.seed)
        tokenizer = Tokenizer.from_file(str(run.tokenizer))
        codes = concatenate([load(path) for path in run.codes])
        layout = Layout(config, tokenizer, References(shards(run.speech), config.speakers, self.device))
        held_out = [u.held_out for u in codes.utterances]
        rows = list(layout.rows(codes, [i for i, held in enumerate(held_out) if not held]).values())
        own = sum(row.place is None for row in rows)
        self.say(f"{len(rows)} rows of {len(held_out)} utterances, {own} of our own voices")
        self.buckets = layout.buckets(rows)
        if not self.buckets:
            raise ValueError(f"codes: no rows of {', '.join(config.speakers)} or of speakers in speech")
        tests = defaultdict[str, list[Row]](list)
        if self.ranks.first:
            for i, row in layout.rows(codes, [i for i, held in enumerate(held_out) if held]).items():
                tests[CLONED if row.place else codes.utterances[i].speaker].append(row)
        self.tests = {name: layout.buckets(found[:_TEST_ROWS]) for name, found in tests.items()}
        self._started = run.start is not None
        if run.start is None:
            self.talker = Talker(config.talker, config.codec, config.speaker, t.dropout)
        else:
            self.talker = load_talker(run.start, config, t.dropout)
        self.talker.to(self.device).train()
        self.say(f"rows by length: { {b.length: b.rows for b in self.buckets} }")
        self.steps = TalkerStep(self.talker, t, self.ranks)
        self.take(self.steps.parts)
        self.steps.begin(self.buckets)
        self.say("steps ready")

    def step(self, done: float) -> Tensor:
        t = self.config.talker_training
        self.steps.rate(rate_at(done, self.count, t.rate, t.final_rate, t.warmup_steps))
        self.steps.guide_weight.fill_(max(0.0, 1 - self.count / t.guide_steps))
        self.steps.own_share.fill_(1.0 if self._started else min(1.0, self.count / max(t.own_steps, 1)))
        weight = np.array([b.rows * b.length for b in self.buckets], float)
        self.steps.run(self.buckets[int(self._rng.choice(len(self.buckets), p=weight / weight.sum()))])
        return self.steps.measures

    def write(self, *, last: bool) -> None:
        save_talker(self.talker, self.given.out / CANDIDATE, steps=self.count, scores=self.scores)

    @torch.no_grad()
    def score(self, *, last: bool) -> dict[str, Any]:
        """Give cross-entropies and accuracies of held-out speech, teacher-forced and looking back on the model's own
        codes."""
        self.talker.eval()
        scores: dict[str, Any] = {}
        for name, buckets in self.tests.items():
            found = [(b.rows, self._score_of(b)) for b in buckets]
            rows = sum(n for n, _ in found)
            mean = [round(sum(n * s[i] for n, s in found) / rows, 4) for i in range(len(found[0][1]))]
            half = len(mean) // 2
            for told, values in (("", mean[:half]), (" on own codes", mean[half:])):
                scores[name + told] = {"first": values[0], "rest": values[1], "accuracy": values[2:]}
        self.talker.train()
        return {"scores": scores}

    def _score_of(self, bucket: Bucket) -> list[float]:
        batch = bucket.batch(torch.arange(bucket.rows, device=self.device), None)
        scores: list[float] = []
        for own in (None, torch.ones(len(batch.text), device=self.device)):
            with autocast(self.device):
                found = losses(self.talker, batch, self.config.talker_training, noise=False, own=own)
            scores += [float(found.first), float(found.rest), *found.hits.tolist()]
        return scores
