"""A run of codec training: a number of seconds, past the codebooks first, then through them.

What stands in `out`: codec.safetensors (newest) and codec.json (settings, history, held-out distances).
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from training.tts.codec import Codec, load_codec, save_codec
from training.tts.codec_step import MEASURES, CodecStep, Phase, compile_snake
from training.tts.config import Config
from training.tts.crops import Crops, place
from training.tts.rate import rate_at
from training.tts.speech import load_speech

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0
_TEST_CROPS = 16


@dataclass(frozen=True)
class CodecRun:
    """What a run is given besides the configuration. start: a codec.safetensors to begin from."""

    speech: tuple[Path, ...]
    out: Path
    seconds: float
    start: Path | None = None
    hours: float = 12.0  # of synthetic speech at most
    steps: int = 10**9
    device: str = "cuda"
    graphs: bool = True
    cpu_report: int = 5


class CodecTrainer:
    """Owns the codec, its step and the history of one run."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        t = config.codec_training
        self.config, self.run = config, run
        self.device = torch.device(run.device)
        self.began = time.monotonic()
        run.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(t.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.codec = load_codec(run.start) if run.start else Codec(config.codec)
        self.codec.to(self.device).train()
        synthetic, human = load_speech(run.speech, config.voices.synthetic, run.hours)
        crops = Crops(
            place(synthetic, self.device, held_out=False),
            place(human, self.device, held_out=False),
            t.human_share,
            t.speed,
            t.gain,
        )
        self._held_out = {
            name: voice
            for name, given in (("synthetic", synthetic), ("recorded", human))
            if (voice := place(given, self.device, held_out=True)) is not None
        }
        for name, voice in (("synthetic", crops.synthetic), ("recorded", crops.human)):
            self.log(f"{name}: {voice.hours if voice else 0:.2f} h")
        self.log(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        self.step = CodecStep(self.codec, t, crops, self.device, graphs=run.graphs)
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, float | str]] = []
        self._saved = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def log(self, text: str) -> None:
        print(f"[codec {self.seconds:.0f} s] {text}", flush=True)

    def train(self) -> None:
        """Both phases; always leaves a checkpoint."""
        t, until = self.config.codec_training, self.run.seconds
        if t.unquantised_steps and self.run.start is None:
            warm = t.unquantised_steps
            self._phase(Phase.UNQUANTISED, until, lambda step: rate_at(0, step, t.rate, 1, t.warmup_steps), warm)
            self.step.begin_codebooks()
            self.log("codebooks begun")
        begun = self.seconds

        def joint(step: int) -> float:
            done = (self.seconds - begun) / max(until - begun, 1e-3)
            return rate_at(done, step, t.rate, t.final_rate, t.warmup_steps)

        self._phase(Phase.JOINT, until, joint, self.run.steps)
        self.save()

    def _phase(self, phase: Phase, until: float, rate: Callable[[int], float], steps: int) -> None:
        set_rate, step = self.step.phase(phase)
        self.log(f"{phase.value}: ready")
        first, began = self.count, time.monotonic()
        report = _REPORT if self.device.type == "cuda" else self.run.cpu_report
        while self.count - first < steps and self.seconds < until:
            done = self.count - first
            set_rate(rate(done))
            step()
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                torch.cuda.synchronize()  # the clock, not the queue, ends a phase
            if self.count % report == 0:
                measured = self.step.measures.tolist()
                self.history.append([self.count, self.seconds, *measured])
                speed = (self.count - first) / (time.monotonic() - began)
                shown = " ".join(f"{name} {v:.3f}" for name, v in zip(MEASURES, measured, strict=True))
                self.log(f"{phase.value} {self.count} {speed:.1f}/s rate {rate(done):.1e} {shown}")
                if self.seconds - self._saved > _SAVE_SECONDS:
                    self._score(phase)
                    self.save()
        self._score(phase)

    def _score(self, phase: Phase) -> None:
        """Distance of held-out speech; books that nobody made yet are not asked."""
        if phase is Phase.UNQUANTISED:
            return
        self.codec.eval()
        for name, voice in self._held_out.items():
            torch.manual_seed(self.config.codec_training.seed)
            found = self.step.held_out(voice.crop(_TEST_CROPS, self.config.codec_training.frames, 0.0).wave[:, None])
            self.scores.append({"step": self.count, "seconds": self.seconds, "voice": name, "distance": found})
            self.log(f"held-out {name}: spectral distance {found:.3f}")
        self.codec.train()

    def save(self) -> None:
        """Weights and history."""
        self._saved = self.seconds
        save_codec(self.codec, self.run.out / "codec.safetensors")
        about = {
            "config": asdict(self.config),
            "steps": self.count,
            "seconds": round(self.seconds, 1),
            "measures": MEASURES,
        }
        about |= {"history": [[round(v, 5) for v in row] for row in self.history], "scores": self.scores}
        (self.run.out / "codec.json").write_text(json.dumps(about) + "\n")
        self.log(f"saved after {self.count} steps")
