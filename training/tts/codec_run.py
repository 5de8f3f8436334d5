"""A run of codec training: a number of seconds, past the codebooks first, then through them, then against
discriminators.

What stands in `out`: codec.safetensors (newest), joint.safetensors (before the discriminators), codec.json (settings,
history, held-out distances) and state.pt, which a run that was cut off goes on from.
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
from training.tts.crops import Crops, Store
from training.tts.rate import rate_at
from training.tts.speech import Arrivals, Shard

_REPORT = 200  # steps
_SAVE_SECONDS = 60.0
_TEST_CROPS = 32
_HELD_OUT_HOURS = 0.5
_OTHERS = 0.2  # hours of other speakers kept, as a share of those of the voices


@dataclass(frozen=True)
class CodecRun:
    """What a run is given besides the configuration. speech: folders of the voices' shards, which may still grow;
    others: of other speakers'; start: a codec.safetensors to begin from; hours: of the voices at most.
    """

    speech: tuple[Path, ...]
    out: Path
    seconds: float
    others: tuple[Path, ...] = ()
    start: Path | None = None
    hours: float = 40.0
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
        self.log(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        self.voices, self.others = Store(run.hours, self.device), Store(_OTHERS * run.hours, self.device)
        self.held_out = Store(_HELD_OUT_HOURS, self.device)
        self._arrivals = Arrivals(run.speech), Arrivals(run.others)
        self._gather(wait=True)
        crops = Crops(self.voices, self.others, t.others_share, t.speed, t.gain)
        self.step = CodecStep(self.codec, t, crops, self.device, graphs=run.graphs)
        self.count = 0
        self.history: list[list[float]] = []
        self.scores: list[dict[str, float]] = []
        self._saved = 0.0
        self._going_on = self._take()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def log(self, text: str) -> None:
        print(f"[codec {self.seconds:.0f} s] {text}", flush=True)

    def _gather(self, *, wait: bool = False) -> None:
        """Add the speech that has come; `wait` until there is all that there was at first, and some."""
        fresh = False
        while True:
            got = [
                self._add(shard, i == 0)
                for i, (a, store) in enumerate(zip(self._arrivals, (self.voices, self.others), strict=True))
                if not store.full and (shard := a.take()) is not None
            ]
            fresh = fresh or bool(got)
            if not got:
                enough = self.voices.fits(self.config.codec_training.frames) or self.others.fits(
                    self.config.codec_training.frames, self.config.codec_training.speed
                )
                if not wait or (enough and self._caught_up()):
                    break
                time.sleep(0.1)
        if fresh or wait:
            self.log(
                f"voices {self.voices.hours:.2f} h, others {self.others.hours:.2f} h, "
                f"held out {self.held_out.hours:.2f} h"
            )

    def _caught_up(self) -> bool:
        """Whether all that was there of the voices is; other speakers' samples take longer to read and may follow."""
        first = self._arrivals[0]
        return self.voices.full or (first.caught_up.is_set() and first.empty)

    def _add(self, shard: Shard, ours: bool) -> bool:
        for utterance, wave, labels in shard.pieces():
            (self.held_out if utterance.held_out else self.voices if ours else self.others).add(wave, labels)
        return True

    def train(self) -> None:
        """All phases; always leaves a checkpoint."""
        t, until = self.config.codec_training, self.run.seconds
        if t.unquantised_steps and self.run.start is None and not self._going_on:
            warm = t.unquantised_steps
            self._phase(Phase.UNQUANTISED, until, lambda step: rate_at(0, step, t.rate, 1, t.warmup_steps), warm)
            self.step.begin_codebooks()
            self.log("codebooks begun")

        def rate(step: int) -> float:
            return rate_at(self.seconds / until, step, t.rate, t.final_rate, t.warmup_steps)

        if not self._settled():
            self._phase(Phase.JOINT, until, rate, self.run.steps)
            self.save()
            save_codec(self.codec, self.run.out / "joint.safetensors")
        if t.adversarial_share and self.seconds < until:
            self._phase(Phase.ADVERSARIAL, until, rate, self.run.steps)
        self.save()

    def _settled(self) -> bool:
        """Whether discriminators may take part: the time for it has come and held-out speech gets no closer without."""
        t, scores = self.config.codec_training, self.scores[-2:]
        if not t.adversarial_share or self.seconds < t.adversarial_from * self.run.seconds or len(scores) < 2:
            return False
        before, now = scores
        minutes = (now["seconds"] - before["seconds"]) / 60
        return now["distance"] >= before["distance"] * (1 - t.settled * minutes)

    def _phase(self, phase: Phase, until: float, rate: Callable[[int], float], steps: int) -> None:
        t, first, began = self.config.codec_training, self.count, self.seconds
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what the phase before held in its graph
        set_rate, step = self.step.phase(phase)
        self.log(f"{phase.value}: ready after {self.seconds - began:.0f} s")
        began = gathered = self.seconds
        report = _REPORT if self.device.type == "cuda" else self.run.cpu_report
        while self.count - first < steps and self.seconds < until:
            done = self.count - first
            set_rate(rate(done))
            risen = (done - t.adversarial_head_start) / max(t.adversarial_warmup, 1)
            self.step.adversarial.fill_(min(1.0, max(0.0, risen)))
            step()
            self.count += 1
            if self.device.type == "cuda" and self.count % 25 == 0:
                torch.cuda.synchronize()  # the clock, not the queue, ends a phase
            if self.count % report == 0:
                measured = self.step.measures.tolist()
                self.history.append([self.count, self.seconds, *measured])
                speed = (self.count - first) / (self.seconds - began)
                shown = " ".join(f"{name} {v:.3f}" for name, v in zip(MEASURES, measured, strict=True))
                self.log(f"{phase.value} {self.count} {speed:.1f}/s rate {rate(done):.1e} {shown}")
                if self.seconds - self._saved > _SAVE_SECONDS:
                    self._score(phase)
                    self.save()
                    if phase is Phase.JOINT and self._settled():
                        break
            if self.seconds - gathered > 5:
                self._gather()
                gathered = self.seconds
        self._score(phase)

    def _score(self, phase: Phase) -> None:
        """Distance of held-out speech; books that nobody made yet are not asked."""
        t = self.config.codec_training
        if phase is Phase.UNQUANTISED or not self.held_out.fits(t.frames):
            return
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(t.seed)
            found = self.step.held_out(self.held_out.crop(_TEST_CROPS, t.frames, 0.0).wave[:, None])
        self.scores.append({"step": self.count, "seconds": self.seconds, "distance": found})
        self.log(f"held-out: spectral distance {found:.4f}")
        self.codec.train()

    def save(self) -> None:
        """Weights, history, and what going on needs."""
        self._saved = self.seconds
        out = self.run.out
        save_codec(self.codec, out / "codec.safetensors")
        about = {
            "config": asdict(self.config), "steps": self.count, "seconds": round(self.seconds, 1), "measures": MEASURES,
            "history": [[round(v, 5) for v in row] for row in self.history], "scores": self.scores,
        }  # fmt: skip
        (out / "codec.json").write_text(json.dumps(about) + "\n")
        state = self.step.state() | {
            "count": self.count, "seconds": self.seconds, "history": self.history, "scores": self.scores,
        }  # fmt: skip
        torch.save(state, out / "state.part")
        (out / "state.part").rename(out / "state.pt")
        self.log(f"saved after {self.count} steps")

    def _take(self) -> bool:
        """Go on from a state that a run before this left in `out`; its seconds count."""
        path = self.run.out / "state.pt"
        if self.run.start is not None or not path.exists():
            return False
        state = torch.load(path, map_location=self.device)
        self.step.take(state)
        self.count, self.history, self.scores = state["count"], state["history"], state["scores"]
        self.began = time.monotonic() - state["seconds"]
        self.log(f"going on after {self.count} steps")
        return True
