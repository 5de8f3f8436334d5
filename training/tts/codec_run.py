"""A run of codec training: a number of seconds, three phases, checkpoints and a curve on the way.

What stands in `out`: codec.safetensors (newest), codec-mel.safetensors (before the adversarial phase),
discriminators.safetensors, codec.json (settings, history, held-out distances), codec.png.
"""

import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training.tts.codec import Codec, half, load_codec, save_codec
from training.tts.codec_step import MEASURES, CodecStep, Phase, compile_snake
from training.tts.config import FRAME, Config
from training.tts.crops import Crops, Voice, place
from training.tts.curves import draw_curves
from training.tts.speech import load_speech

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0
_HELD_OUT_FRAMES = 100


@dataclass(frozen=True)
class CodecRun:
    """What a run is given besides the configuration. start: a codec.safetensors to begin from."""

    speech: tuple[Path, ...]
    out: Path
    seconds: float
    start: Path | None = None
    discriminators: Path | None = None
    hours: float = 12.0  # of synthetic speech at most
    steps: int = 10**9
    device: str = "cuda"
    graphs: bool = True
    cpu_report: int = 5


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int) -> float:
    """Linear warm-up over `warmup` steps, then a cosine from `peak` to `final` · `peak` as `progress` goes 0 -> 1."""
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling


class CodecTrainer:
    """Owns the codec, its step and the history of one run."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        self.config, self.run = config, run
        self.device = torch.device(run.device)
        self.began = time.monotonic()
        torch.manual_seed(config.codec_training.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.codec = load_codec(run.start, config.codec) if run.start else Codec(config.codec)
        self.codec.to(self.device).train()
        synthetic, human = load_speech(run.speech, config.voices.synthetic, run.hours)
        t = config.codec_training
        crops = Crops(
            place(synthetic, self.device, held_out=False),
            place(human, self.device, held_out=False),
            t.human_share,
            t.speed,
        )
        self.held_out = {
            name: voice
            for name, given in (("synthetic", synthetic), ("recorded", human))
            if (voice := place(given, self.device, held_out=True)) is not None
        }
        for name, voice in (("synthetic", crops.synthetic), ("recorded", crops.human)):
            self.log(f"{name}: {voice.hours if voice else 0:.2f} h")
        self.log(f"snake compiled: {compile_snake(self.device)}")
        self.step = CodecStep(self.codec, t, crops, self.device, graphs=run.graphs)
        if run.discriminators:
            weights = {k: v.float() for k, v in load_file(run.discriminators).items()}
            self.step.discriminators.load_state_dict(weights)
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
        """All phases; always leaves a checkpoint."""
        t, total = self.config.codec_training, self.run.seconds
        turn = total * (1 - t.adversarial_share)
        if t.unquantised_steps:
            warm = t.unquantised_steps
            self._phase(Phase.UNQUANTISED, turn, lambda step: rate_at(0, step, t.rate, 1, t.warmup_steps), warm)
            self.step.begin_codebooks()
            self.log("codebooks begun")
        begun = self.seconds

        def joint(step: int) -> float:
            done = (self.seconds - begun) / max(turn - begun, 1e-3)
            return rate_at(done, step, t.rate, t.final_rate, t.warmup_steps)

        self._phase(Phase.JOINT, turn, joint, self.run.steps)
        self.save("codec-mel.safetensors")
        if t.adversarial_share > 0:
            started = self.seconds

            def tune(step: int) -> float:
                done = (self.seconds - started) / max(total - started, 1e-3)
                return rate_at(done, step, t.rate * t.final_rate, 0.1, 3 * t.warmup_steps)

            self._phase(Phase.ADVERSARIAL, total, tune, self.run.steps)
            save_file(half(self.step.discriminators.state_dict()), self.run.out / "discriminators.safetensors")
        self.save("codec.safetensors")

    def _phase(self, phase: Phase, until: float, rate: Callable[[int], float], steps: int) -> None:
        set_rate, step = self.step.phase(phase)
        self.log(f"{phase.value}: ready")
        first, began = self.count, time.monotonic()
        report = _REPORT if self.device.type == "cuda" else self.run.cpu_report
        while self.count - first < steps and self.seconds < until:
            value = rate(self.count - first)
            set_rate(value)
            step()
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                torch.cuda.synchronize()  # the clock, not the queue, ends a phase
            if self.count % report == 0:
                measured = self.step.measures.tolist()
                self.history.append([self.count, self.seconds, *measured])
                speed = (self.count - first) / (time.monotonic() - began)
                shown = " ".join(f"{name} {v:.3f}" for name, v in zip(MEASURES, measured, strict=True) if v)
                self.log(f"{phase.value} {self.count} {speed:.1f}/s rate {value:.1e} {shown}")
                if self.seconds - self._saved > _SAVE_SECONDS:
                    self.save("codec.safetensors")
        self._score(phase)

    @torch.no_grad()
    def _score(self, phase: Phase) -> None:
        """Spectral distance of held-out speech through the codes (past them before the codebooks exist)."""
        self.codec.eval()
        for name, voice in self.held_out.items():
            distances = [self._distance(wave, phase) for wave in pieces(voice, _HELD_OUT_FRAMES)]
            if not distances:
                continue
            score = sum(distances) / len(distances)
            self.scores.append({"step": self.count, "phase": phase.value, "voice": name, "distance": score})
            self.log(f"{phase.value} held-out {name}: spectral distance {score:.4f} over {len(distances)} pieces")
        self.codec.train()

    def _distance(self, wave: torch.Tensor, phase: Phase) -> float:
        decoder = self.codec.decoder
        z = self.codec.encoder(wave)
        quantised = decoder.quantizer.bypass(z) if phase is Phase.UNQUANTISED else decoder.quantizer(z)
        return float(self.step.distance(decoder.vocode(decoder.latents(quantised.value)), wave))

    def save(self, name: str) -> None:
        """Weights, history and curve."""
        self._saved = self.seconds
        out = self.run.out
        save_codec(self.codec, out / name)
        about = {
            "config": asdict(self.config),
            "steps": self.count,
            "seconds": round(self.seconds, 1),
            "measures": MEASURES,
        }
        about |= {"history": [[round(v, 5) for v in row] for row in self.history], "scores": self.scores}
        (out / "codec.json").write_text(json.dumps(about) + "\n")
        draw_curves(self.history, MEASURES, out / "codec.png")
        self.log(f"saved {name} after {self.count} steps")


def pieces(voice: Voice, frames: int, most: int = 60) -> Iterable[torch.Tensor]:
    """Pieces [1, 1, 1920 · frames] of a voice in their order."""
    size = frames * FRAME
    for start in range(0, min(voice.wave.numel() - size + 1, most * size), size):
        yield voice.wave[start : start + size].float()[None, None] / 32768
