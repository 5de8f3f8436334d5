"""A run of codec training: a number of seconds, three phases, checkpoints and a curve on the way.

What stands in `out`: codec.safetensors (newest), codec-mel.safetensors (before the adversarial phase),
discriminators.safetensors, codec.json (settings, history, held-out distances), codec.png. Codes and decoder may be
two runs: `Part.DECODER` leaves the codes of the weights it begins from as they are, so that a talker can learn them
meanwhile. `Part.ENCODER` makes a new encoder for the books of the weights it begins from.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training.tts.average import Average
from training.tts.codec import Codec, half, load_codec, save_codec
from training.tts.codec_scores import Listening
from training.tts.codec_step import MEASURES, CodecStep, Phase, compile_snake
from training.tts.config import Config
from training.tts.crops import Crops, place
from training.tts.curves import draw_curves
from training.tts.lessons import load_lessons
from training.tts.rate import rate_at
from training.tts.speech import load_speech

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0


class Part(Enum):
    """What a run trains: all one after another; encoder, books and decoder together (codes); the decoder alone; a new
    encoder for given books, then the decoder with it (encoder).
    """

    ALL = "all"
    CODES = "codes"
    DECODER = "decoder"
    ENCODER = "encoder"


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
    part: Part = Part.ALL
    codes: Path | None = None  # codes.npz that a new encoder is taught by
    heard: Path | None = None  # a folder of the recordings' shards as the encoder is to hear them too


class CodecTrainer:
    """Owns the codec, its step and the history of one run."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        if run.part is Part.DECODER and run.start is None:
            raise ValueError("codec: the decoder alone needs --start: the codec whose codes it is to decode")
        if run.part is Part.ENCODER and run.start is None:
            raise ValueError("codec: a new encoder needs --start: the codec whose books it is to use")
        if run.part is not Part.ENCODER and run.codes is not None:
            raise ValueError(f"codec --codes: they teach a new encoder (--part encoder), not --part {run.part.value}")
        t = config.codec_training
        lessons = load_lessons(run.codes, config.codec, t.frames) if run.codes else None
        self.config, self.run = config, run
        self.device = torch.device(run.device)
        self.began = time.monotonic()
        run.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(t.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        # Only the decoder alone must hear with the encoder begun from: it is not trained.
        known = run.part is Part.DECODER
        self.codec = load_codec(run.start, config.codec, encoder=known) if run.start else Codec(config.codec)
        self.codec.to(self.device).train()
        synthetic, human = load_speech(run.speech, config.voices.synthetic, run.hours)
        again = load_speech([run.heard], config.voices.synthetic, 0)[1] if run.heard else []
        if run.heard and not again:
            raise ValueError(f"codec --heard: no recordings in {run.heard}")
        crops = Crops(
            place(synthetic, self.device, held_out=False),
            place(human, self.device, held_out=False, heard=again),
            t.human_share,
            t.speed,
            t.gain,
        )
        held_out = {
            name: voice
            for name, given in (("synthetic", synthetic), ("recorded", human))
            if (voice := place(given, self.device, held_out=True)) is not None
        }
        for name, voice in (("synthetic", crops.synthetic), ("recorded", crops.human)):
            self.log(f"{name}: {voice.hours if voice else 0:.2f} h")
        self.log(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        codes = None if lessons is None else torch.from_numpy(lessons)
        self.step = CodecStep(self.codec, t, crops, self.device, graphs=run.graphs, codes=codes)
        self._listening = Listening(self.step, held_out)
        if run.discriminators:
            weights = {k: v.float() for k, v in load_file(run.discriminators).items()}
            self.step.discriminators.load_state_dict(weights)
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, float | str]] = []
        self._saved = 0.0
        self._average = Average()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def log(self, text: str) -> None:
        print(f"[codec {self.seconds:.0f} s] {text}", flush=True)

    def train(self) -> None:
        """The phases of the part; always leaves a checkpoint."""
        t, total, part = self.config.codec_training, self.run.seconds, self.run.part
        turn = total if part is Part.CODES else total * (1 - t.adversarial_share)
        if part is Part.ENCODER:
            self._train_encoder(turn)
            self.save("codec-mel.safetensors")
        elif part is not Part.DECODER:
            self._train_codes(turn)
            self.save("codec-mel.safetensors")
        if part is not Part.CODES and (part is Part.DECODER or t.adversarial_share > 0):
            self._train_decoder(total)
            save_file(half(self.step.discriminators.state_dict()), self.run.out / "discriminators.safetensors")
        self.save("codec.safetensors")

    def _train_codes(self, until: float) -> None:
        t = self.config.codec_training
        if t.unquantised_steps:
            warm = t.unquantised_steps
            self._phase(Phase.UNQUANTISED, until, lambda step: rate_at(0, step, t.rate, 1, t.warmup_steps), warm)
            self.step.begin_codebooks()
            self.log("codebooks begun")
        begun = self.seconds

        def joint(step: int) -> float:
            done = (self.seconds - begun) / max(until - begun, 1e-3)
            return rate_at(done, step, t.rate, t.final_rate, t.warmup_steps)

        self._phase(Phase.JOINT, until, joint, self.run.steps)

    def _train_encoder(self, until: float) -> None:
        """What the given codes stand for, if there are any; past the given books to the given decoder, then more and
        more through them, then with the decoder.
        """
        t, step = self.config.codec_training, self.step
        if self.run.codes:
            self._phase(Phase.TAUGHT, until, lambda done: rate_at(0, done, t.rate, 1, t.warmup_steps), t.taught_steps)
        begun = self.seconds

        def given(done: int) -> float:
            step.quantised_share.fill_(min(max((done - t.free_steps) / max(t.closing_steps, 1), 0.0), 1.0))
            own = done - t.decoder_after
            step.decoder_share = t.decoder_share * min(1.0, (own + 1) / t.warmup_steps) if own >= 0 else 0.0
            past = (self.seconds - begun) / max(until - begun, 1e-3)
            return rate_at(past, done, t.rate, t.final_rate, t.warmup_steps)

        if t.average:
            weights = (p for n, p in self.codec.named_parameters() if not n.startswith("decoder.quantizer"))
            self._average = Average(weights, t.average)
        self._phase(Phase.GIVEN, until, given, self.run.steps)
        # The encoder is frozen from here on: the decoder is to learn the codes of the one that is saved.
        self._average.settle()

    def _train_decoder(self, until: float) -> None:
        t, started = self.config.codec_training, self.seconds

        def tune(step: int) -> float:
            self.step.adversarial_weight.fill_(t.adversarial_weight * min(1.0, step / max(t.adversarial_ramp, 1)))
            done = (self.seconds - started) / max(until - started, 1e-3)
            return rate_at(done, step, t.decoder_rate, 0.05, 3 * t.warmup_steps)

        if t.average:
            weights = (p for n, p in self.codec.decoder.named_parameters() if "quantizer" not in n)
            self._average = Average(weights, t.average)
        self._phase(Phase.ADVERSARIAL, until, tune, self.run.steps)

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
            self._average.add(done)
            if self.device.type == "cuda" and self.count % 25 == 0:
                torch.cuda.synchronize()  # the clock, not the queue, ends a phase
            if self.count % report == 0:
                measured = self.step.measures.tolist()
                self.history.append([self.count, self.seconds, *measured])
                speed = (self.count - first) / (time.monotonic() - began)
                shown = " ".join(f"{name} {v:.3f}" for name, v in zip(MEASURES, measured, strict=True) if v)
                self.log(f"{phase.value} {self.count} {speed:.1f}/s rate {rate(done):.1e} {shown}")
                if self.seconds - self._saved > _SAVE_SECONDS:
                    self._score(phase)
                    self.save("codec.safetensors")
        self._score(phase)

    @torch.no_grad()
    def _score(self, phase: Phase) -> None:
        self.codec.eval()
        with self._average.worn():
            for name, measured in self._listening.scores(phase):
                at: dict[str, float | str] = {"step": self.count, "seconds": self.seconds, "phase": phase.value}
                self.scores.append(at | {"voice": name} | measured)
                shown = ", ".join(f"{key} {value:.4g}" for key, value in measured.items())
                self.log(f"{phase.value} held-out {name}: {shown}")
        self.codec.train()

    @torch.no_grad()
    def save(self, name: str) -> None:
        """Weights, history and curve."""
        self._saved = self.seconds
        out = self.run.out
        with self._average.worn():
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
