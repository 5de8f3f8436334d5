"""A run of practice: the talker says lines several times, judges choose the best take of each, and it learns these.

Each step of the run is a round: say, judge, choose, learn. Takes by readers' voices are learnt as they come, so that
cloning stays as it is, and the speaker encoder is still.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.learner import Learner, autocast
from training.lengths import by_length
from training.run import CANDIDATE, Given, Trainer, rate_at
from training.speech.script import load_scripts
from training.tts.checkpoint import load_talker, save_talker
from training.tts.choice import lines_of_script
from training.tts.codec import load_codec
from training.tts.config import Config
from training.tts.judges import Judge, Judges
from training.tts.prompt import head, lay_out
from training.tts.references import References
from training.tts.rounds import MEASURED, Rounds, Take
from training.tts.rows import Bucket, Layout
from training.tts.sampler import voices_of
from training.tts.speech import shards
from training.tts.talker import ENCODER
from training.tts.talker_step import BETAS, losses

MEASURES = *MEASURED, "cross-entropy 0", "cross-entropy rest"
_AT_ONCE = 50  # So many recordings of 10 s are heard at once.


@dataclass(frozen=True, kw_only=True)
class PracticeRun(Given):
    """What a run is given besides the configuration. start: `weights` of a talker's run, or the folder `talker` of
    `training.tts shipped`; script: of `training.speech prepare`; readers: folders of shards of people whose voices are
    cloned; codec: whose decoder is heard; teacher: of `training.asr whisper`."""

    start: Path
    script: tuple[Path, ...]
    readers: tuple[Path, ...]
    codec: Path
    teacher: Path
    tokenizer: Path


class PracticeTrainer(Trainer):
    """Owns the talker and what it practises. A round is saved when it is over, in a folder of its own too, because the
    last one need not be the best."""

    save_every, report_every = -1.0, 1

    def __init__(self, config: Config, run: PracticeRun, judge: Judge | None = None) -> None:
        """judge: None for `Judges`.

        Raises:
            ValueError: the script has too few lines, or no reader has enough recordings.
            ImportError: distillmos is missing.
        """
        sizes = {name: round(getattr(config.practice_training, name) * run.scale) for name in ("batch", "positions")}
        self.training = t = replace(config.practice_training, **sizes)
        super().__init__("practice", run, replace(config, practice_training=t), MEASURES, t.seed)
        tokenizer = Tokenizer.from_file(str(run.tokenizer))
        lines = lines_of_script(load_scripts(run.script), tokenizer, t.tokens)
        if len(lines) <= t.held_out:
            raise ValueError(f"script: {len(lines)} lines, of which {t.held_out} are held out")
        order: list[int] = np.random.default_rng(t.seed).permutation(len(lines)).tolist()
        self.held, practised = [lines[i] for i in order[: t.held_out]], [lines[i] for i in order[t.held_out :]]
        self.layout = Layout(config, tokenizer, References(shards(run.readers), config.speakers, self.device))
        self.talker = load_talker(run.start, config, config.talker_training.dropout).to(self.device)
        for name, parameter in self.talker.named_parameters():
            parameter.requires_grad_(not name.startswith(ENCODER))
        matrices, others = ([p for p in self.talker.parameters() if (p.dim() > 1) == one] for one in (True, False))
        groups = [{"params": matrices, "weight_decay": t.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.learner = Learner(groups, self.device, BETAS, t.clip)
        self.take({"talker": self.talker, "optimizer": self.learner})
        self.chance = np.random.default_rng([t.seed, self.count, self.ranks.share[0]])
        judge = judge or Judges(run.teacher, load_codec(run.codec).decoder, self.device)
        self.rounds = Rounds(self.talker, self.layout, judge, practised, config.speakers, self._voices(), t)
        self.taken = list[list[Take]]()
        self.say(f"{len(practised)} lines, {len(self.held)} held out")

    @torch.no_grad()
    def _voices(self) -> Tensor:
        """Give voices of readers [voices, hidden], each heard in a span of its own."""
        if not (places := self.layout.references.everyone()):
            raise ValueError("readers: nobody who can be heard; give folders of `training.tts recordings`")
        chosen = torch.tensor(np.resize(places, (self.training.voices, 4)), device=self.device)
        heard = (self.layout.references.draw(part) for part in torch.split(chosen, _AT_ONCE))
        return torch.cat([self.talker.voices(waves) for waves in heard])

    def step(self, done: float) -> Tensor:
        """Practise for a round, and learn from the last ones. A state does not keep their takes."""
        began, t = self.seconds, self.training
        takes, told = self.rounds.next(self.chance)
        self.taken = [*self.taken, takes][-t.rounds :]
        takes = [take for one in self.taken for take in one]
        # Those of one length come in any order, so that a batch has takes of all rounds and voices.
        order: list[int] = self.chance.permutation(len(takes)).tolist()
        takes = [takes[i] for i in order]
        around = 1 + len(head(self.layout.text, self.layout.codec, "", language=True)[0])
        groups = list(by_length([len(codes) + around for _, codes in takes], t.positions))
        sums = torch.zeros(2, device=self.device)
        self.talker.train()
        for n in range(t.steps):
            self.learner.rate(rate_at(done, self.count * t.steps + n, t.rate, t.final_rate, t.warmup_steps))
            self.learner.clear()
            sums += self._gradients([takes[i] for i in groups[int(self.chance.integers(len(groups)))]])
            self.ranks.mean(self.learner.gradient)
            self.learner.step()
        self.talker.eval()
        self.step_seconds = self.ranks.same(max(self.step_seconds, self.seconds - began))
        return torch.cat([torch.tensor(told, device=self.device), sums / t.steps])

    def _gradients(self, takes: Sequence[Take]) -> Tensor:
        """Find the gradients of some takes, and give the losses [2] of codebook 0 and of the other books."""
        layout, named = self.layout, self.chance.random(len(takes)) < 0.5
        rows = [
            lay_out(codes, one.tokens, one.name, layout.text, layout.codec, language=bool(language))
            for (one, codes), language in zip(takes, named, strict=True)
        ]
        bucket = Bucket(layout, rows, max(len(row.text) for row in rows))
        batch = bucket.batch(torch.arange(len(rows), device=self.device), self.training.predictor_frames)
        cloned, voices = voices_of([one for one, _ in takes], self.device)
        known = voices if len(cloned) else None
        with autocast(self.device):
            batch = batch._replace(cloned=cloned)
            found = losses(self.talker, batch, self.config.talker_training, noise=True, voices=known)
            loss = found.first + found.rest
        loss.backward()
        return torch.stack([found.first, found.rest]).detach()

    def save(self, *, last: bool = False) -> None:
        """Save a round. The last one has been saved before, where time was left."""
        if not self.scores or self.scores[-1]["step"] != self.count:
            super().save(last=last)

    def write(self, *, last: bool) -> None:
        for name in (CANDIDATE, f"round-{self.count}"):
            save_talker(self.talker, self.given.out / name, steps=self.count, scores=self.scores)

    def score(self, *, last: bool) -> dict[str, Any]:
        return {"scores": self.rounds.score(self.held)}
