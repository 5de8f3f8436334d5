"""A run of codec training: a number of seconds, past the codebooks first, then through them.

What stands in `out` beside what `progress.py` names: codec.safetensors (newest).
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from training.progress import Progress, rate_at
from training.tts.codec import Codec, load_codec, save_codec
from training.tts.codec_step import MEASURES, CodecStep, compile_snake
from training.tts.config import Config
from training.tts.crops import Store
from training.tts.ear import load_ear
from training.tts.speech import load_shard, shards

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0
_TEST_CROPS = 32
_HELD_OUT_HOURS = 0.5


@dataclass(frozen=True)
class CodecRun:
    """What a run is given besides the configuration. speech: folders of the voices' shards; start: a codec.safetensors
    to begin from; ear: a checkpoint folder of the hearing model; hours: of speech at most.
    """

    speech: tuple[Path, ...]
    out: Path
    seconds: float
    start: Path | None = None
    ear: Path | None = None
    hours: float = 40.0
    steps: int = 10**9
    device: str = "cuda"
    graphs: bool = True
    report: int = _REPORT


class CodecTrainer:
    """Owns the codec, its step and the progress of one run."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        t = config.codec_training
        self.config, self.run = config, run
        self.device = torch.device(run.device)
        self.progress = Progress("codec", run.out, MEASURES, self.device)
        torch.manual_seed(t.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.codec = load_codec(run.start) if run.start else Codec(config.codec)
        self.codec.to(self.device).train()
        self.progress.log(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        self.speech, self.held_out = Store(run.hours, self.device), Store(_HELD_OUT_HOURS, self.device)
        for shard in map(load_shard, shards(run.speech)):
            for utterance, wave, labels in shard.pieces():
                (self.held_out if utterance.held_out else self.speech).add(wave, labels)
            if self.speech.full:
                break
        self.progress.log(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")
        self.step = CodecStep(self.codec, t, self.speech, load_ear(run.ear), self.device, graphs=run.graphs)
        self._saved = 0.0
        state = self.progress.take()
        if state is not None:
            self.step.take(state)

    def train(self) -> None:
        """Always leaves a checkpoint."""
        t = self.config.codec_training
        self.progress.begin()
        if t.unquantised_steps and self.run.start is None and not self.progress.count:
            self._train(t.unquantised_steps, free=True)
            self.step.begin_codebooks()
            self.progress.log("codebooks begun")
        self._train(self.run.steps, free=False)
        self.save()

    def _train(self, steps: int, *, free: bool) -> None:
        """So many steps, or until the time is up. Past the codebooks the rate does not fall yet."""
        t, progress, first = self.config.codec_training, self.progress, self.progress.count
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what the steps before held in their graph
        step = self.step.begin(free=free)
        began = progress.seconds
        while progress.count - first < steps and progress.seconds < self.run.seconds:
            part = 0.0 if free else progress.seconds / self.run.seconds
            rate = rate_at(part, progress.count - first, t.rate, t.final_rate, t.warmup_steps)
            self.step.rate(rate)
            step()
            progress.stepped()
            if progress.count % self.run.report == 0:
                speed = (progress.count - first) / (progress.seconds - began)
                progress.report(f"{speed:.1f}/s rate {rate:.1e}", self.step.measures)
                if progress.seconds - self._saved > _SAVE_SECONDS and not free:
                    self.save()

    def save(self) -> None:
        """Score, weights, and what going on needs."""
        self._score()
        self._saved = self.progress.seconds
        save_codec(self.codec, self.run.out / "codec.safetensors")
        self.progress.save(self.step.state(), {"config": asdict(self.config)})

    def _score(self) -> None:
        """Distance of held-out speech."""
        t = self.config.codec_training
        if not self.held_out.fits(t.frames):
            return
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(t.seed)
            found = self.step.held_out(self.held_out.crop(_TEST_CROPS, t.frames).wave)
        progress = self.progress
        progress.scores.append({"step": progress.count, "seconds": progress.seconds, "distance": found})
        progress.log(f"held-out: spectral distance {found:.4f}")
        self.codec.train()
