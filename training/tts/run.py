"""What runs of the codec and of its decoder alone have in common: steps on slices of crops, their loop and score.

What stands in `out` beside what `progress.py` names: codec.safetensors (newest).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from training.progress import Progress, rate_at
from training.ranks import Ranks
from training.tts.codec import Codec, save_codec
from training.tts.config import FRAME, CodecTraining, Config, DecoderTraining
from training.tts.decoder import Decoder
from training.tts.ear import Ear
from training.tts.graph import Learner, autocast, captured
from training.tts.layers import compile_snake
from training.tts.spectra import SpectralDistance

BETAS, DECAY = (0.8, 0.99), 1e-3  # of every optimiser here
TEST_CROPS = 32
_SAVE_SECONDS = 60.0

T = TypeVar("T", CodecTraining, DecoderTraining)
S = TypeVar("S", bound="Step[Any]")


def cut(x: Tensor, start: Tensor, length: int) -> Tensor:
    """x [B, C, T], start int64 [B] -> [B, C, length]."""
    index = start[:, None] + torch.arange(length, device=x.device)
    return torch.gather(x, 2, index[:, None].expand(-1, x.shape[1], -1))


class Step(ABC, Generic[T]):
    """Static buffers, so that a step can be a CUDA graph, and what slices are compared by; what is derived has the
    learners, and `begin` that gives the function that does one step.
    """

    modules: Mapping[str, nn.Module]
    learners: Mapping[str, Learner]
    """Everything that steps change, by name; the first learner's norm is the last of what is measured."""

    def __init__(
        self, training: T, decoder: Decoder, measures: Sequence[str], ear: Ear | None, ranks: Ranks, *, graphs: bool
    ) -> None:
        device = ranks.device
        self.training, self.decoder, self.device, self._graphs = training, decoder, device, graphs
        self._ranks = ranks
        self.ear = None if ear is None else ear.to(device)
        self.distance = SpectralDistance(training.magnitude_weight).to(device)
        self.measures = torch.zeros(len(measures), device=device)

    @abstractmethod
    def draw(self) -> tuple[Tensor, ...]:
        """New crops."""

    def shared(self) -> list[Tensor]:
        """What steps change without a gradient, and all processes take from the first."""
        return []

    def captured(self, gradients: Callable[[], None]) -> Callable[[], None]:
        """What fills the buffers with new crops, does `gradients`, which reads them, and learns from all ranks'."""
        t, device = self.training, self.device
        if device.type == "cuda":
            torch.cuda.empty_cache()  # what steps before held in their graph
        self.crop = self.draw()
        self._start = torch.zeros(t.batch, dtype=torch.long, device=device)
        last = t.frames - t.slice_frames - t.history_frames

        def fill() -> None:
            for buffer, new in zip(self.crop, self.draw(), strict=True):
                buffer.copy_(new)
            self._start.copy_(torch.randint(0, last + 1, (t.batch,), device=device))

        def clear() -> None:
            for learner in self.learners.values():
                learner.clear()

        def find() -> None:
            clear()
            gradients()

        def learn() -> None:
            for learner in self.learners.values():
                learner.step()
            self.measures[-1] = next(iter(self.learners.values())).norm

        self.rate(1e-6)
        found, pool = captured(find, fill, device, graphs=self._graphs)
        learnt, _ = captured(learn, clear, device, graphs=self._graphs, pool=pool)

        def run() -> None:
            fill()
            found()
            for learner in self.learners.values():
                self._ranks.mean(learner.gradient)
            self._ranks.copy(self.shared())
            learnt()

        return run

    def slices(self, quantised: Tensor, wave: Tensor) -> tuple[Tensor, Tensor]:
        """A slice of each crop: decoded from [B, codebook_dim, T], and of the waves [B, 1, 1920 · T] themselves."""
        start, size, history = self._start, self.training.slice_frames, self.training.history_frames
        decoded = self.decoder.vocode(cut(self.decoder.latents(quantised), start, history + size))
        return decoded[..., history * FRAME :], cut(wave, (start + history) * FRAME, size * FRAME)

    def heard(self, decoded: Tensor, real: Tensor) -> Tensor:
        """How far the ear finds them apart; 0 without one."""
        return real.new_zeros(()) if self.ear is None else self.ear(decoded, real)

    def measure(self, *values: Tensor) -> None:
        """Note what is reported, without the norm."""
        self.measures[:-1].copy_(torch.stack([value.detach().float() for value in values]))

    def rate(self, value: float) -> None:
        """Set the rate of learning."""
        for learner in self.learners.values():
            learner.rate(value)

    def state(self) -> dict[str, Any]:
        """To go on from."""
        return {name: part.state_dict() for name, part in (*self.modules.items(), *self.learners.items())}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name, part in (*self.modules.items(), *self.learners.items()):
            part.load_state_dict(state[name])

    @torch.no_grad()
    def held_out(self, codes: Tensor, wave: Tensor) -> float:
        """Spectral distance of what codes [B, K, T] stand for to waves [B, 1, 1920 · T]."""
        with autocast(self.device):
            decoded = self.decoder.vocode(self.decoder.latents(self.decoder.quantizer.decode(codes)))
        return float(self.distance(decoded.float(), wave))


@dataclass(frozen=True, kw_only=True)
class Run:
    """What every run is given. speech: folders of the voices' shards; ear: folder of `training.asr shipped`, by what
    it hears slices are compared too; steps: those of the runs that it goes on from included; report: steps a line.
    """

    speech: tuple[Path, ...]
    out: Path
    seconds: float
    ear: Path | None = None
    steps: int = 10**9
    device: str = "cuda"
    graphs: bool = True
    report: int = 200


class Trainer(ABC, Generic[S]):
    """Owns the progress of one run; what is derived makes its codec and its step, then calls `take`."""

    codec: Codec
    step: S

    def __init__(
        self, name: str, measures: Sequence[str], config: Config, training: CodecTraining | DecoderTraining, run: Run
    ) -> None:
        self.config, self.training, self.run = config, training, run
        self.ranks = Ranks(run.device)
        self.device = self.ranks.device
        self.progress = Progress(name, run.out, measures, self.device)
        torch.manual_seed(training.seed)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        self.say(f"snake compiled: {run.graphs and compile_snake(self.device)}")
        self.ear = None if run.ear is None else Ear(run.ear)

    def say(self, text: str) -> None:
        """A line of the log."""
        if self.ranks.first:
            self.progress.log(text)

    @abstractmethod
    def tests(self) -> tuple[Tensor, Tensor] | None:
        """Codes and samples of crops of held-out speech, if there is enough."""

    def take(self) -> None:
        """Go on from the state that a run before this left, if any; from here on each process draws its own crops."""
        state = self.progress.take()
        if state is not None:
            self.step.take(state)
        torch.manual_seed(self.training.seed + self.ranks.share[0])

    def go(self, step: Callable[[], None], until: int, *, free: int = 0) -> None:
        """So many steps in all, or until the time is up. The first `free` are past the codebooks: there the rate does
        not fall, after them it rises anew, and nothing is saved among them.
        """
        t, run, progress = self.training, self.run, self.progress
        first = progress.count
        began = saved = progress.seconds
        while progress.count < until and (spent := self.ranks.same(progress.seconds)) < run.seconds:
            past = progress.count < free
            part, warm = (0.0, progress.count) if past else (spent / run.seconds, progress.count - free)
            rate = rate_at(part, warm, t.rate, t.final_rate, t.warmup_steps)
            self.step.rate(rate)
            step()
            progress.stepped()
            if self.ranks.first and progress.count % run.report == 0:
                speed = (progress.count - first) / (progress.seconds - began)
                progress.report(f"{speed:.1f}/s rate {rate:.1e}", self.step.measures)
                if progress.seconds - saved > _SAVE_SECONDS and not past:
                    saved = progress.seconds
                    self.save()

    def save(self) -> None:
        """Score, weights, and what going on needs; of the first process alone."""
        if not self.ranks.first:
            return
        progress = self.progress
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.training.seed)
            tests = self.tests()
        if tests is not None:
            found = self.step.held_out(*tests)
            progress.scores.append({"step": progress.count, "seconds": progress.seconds, "distance": found})
            progress.log(f"held-out: spectral distance {found:.4f}")
        self.codec.train()
        save_codec(self.codec, self.run.out / "codec.safetensors")
        progress.save(self.step.state(), {"config": asdict(self.config)})
