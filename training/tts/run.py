"""What runs of the codec and of its decoder alone have in common: steps on slices of crops, and their score.

What stands in `out` beside what `training.run` names: codec.safetensors (newest).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from training.learner import Learner, Step, autocast
from training.ranks import Ranks
from training.run import Given, Trainer, rate_at
from training.tts.codec import load_codec, save_codec
from training.tts.config import FRAME, CodecTraining, Config, DecoderTraining
from training.tts.crops import stores
from training.tts.decoder import Decoder
from training.tts.ear import Ear
from training.tts.layers import compile_snake
from training.tts.spectra import SpectralDistance

TEST_CROPS = 32


def cut(x: Tensor, start: Tensor, length: int) -> Tensor:
    """x [B, C, T], start int64 [B] -> [B, C, length]."""
    index = start[:, None] + torch.arange(length, device=x.device)
    return torch.gather(x, 2, index[:, None].expand(-1, x.shape[1], -1))


def learner(module: nn.Module, device: torch.device, clip: float) -> Learner:
    """Of all parameters of a part of the codec, or of its judges."""
    return Learner([{"params": list(module.parameters()), "weight_decay": 1e-3}], device, (0.8, 0.99), clip)


class SliceStep(Step):
    """A step on slices of crops, and what slices are compared by."""

    def __init__(
        self, training: CodecTraining | DecoderTraining, decoder: Decoder, measures: Sequence[str], ear: Ear | None,
        ranks: Ranks, parts: Mapping[str, nn.Module | Learner],
    ) -> None:  # fmt: skip
        super().__init__(ranks, measures, parts)
        self.training, self.decoder = training, decoder
        self.ear = None if ear is None else ear.to(self.device)
        self.distance = SpectralDistance(training.magnitude_weight).to(self.device)

    def starts(self) -> Tensor:
        """Where in the crops of a batch slices begin, with what is decoded before them: frames int64 [B]."""
        t = self.training
        return torch.randint(0, t.frames - t.slice_frames - t.history_frames + 1, (t.batch,), device=self.device)

    def slices(self, quantised: Tensor, wave: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """A slice of each crop: decoded from [B, codebook_dim, T], and of the waves [B, 1, 1920 · T] themselves."""
        size, history = self.training.slice_frames, self.training.history_frames
        decoded = self.decoder.vocode(cut(self.decoder.latents(quantised), start, history + size))
        return decoded[..., history * FRAME :], cut(wave, (start + history) * FRAME, size * FRAME)

    def heard(self, decoded: Tensor, real: Tensor) -> Tensor:
        """How far the ear finds them apart; 0 without one."""
        return real.new_zeros(()) if self.ear is None else self.ear(decoded, real)

    @torch.no_grad()
    def held_out(self, codes: Tensor, wave: Tensor) -> float:
        """Spectral distance of what codes [B, K, T] stand for to waves [B, 1, 1920 · T]."""
        with autocast(self.device):
            decoded = self.decoder.vocode(self.decoder.latents(self.decoder.quantizer.decode(codes)))
        return float(self.distance(decoded.float(), wave))


@dataclass(frozen=True, kw_only=True)
class SliceRun(Given):
    """What both runs are given. start: codec.safetensors of `training.tts shipped`, or of a run; speech: folders of the
    voices' shards; ear: folder of `training.asr shipped`, by what it hears slices are compared too.
    """

    start: Path
    speech: tuple[Path, ...]
    ear: Path | None = None


class SliceTrainer(Trainer):
    """Owns the codec; what is derived makes its steps.

    Raises:
        ValueError: the codec is of another shape than the configured one.
    """

    steps: SliceStep

    def __init__(
        self, name: str, measures: Sequence[str], config: Config, training: CodecTraining | DecoderTraining,
        run: SliceRun, codes: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        """codes: files of codes beside the speech, instead of phone labels."""
        super().__init__(name, run, config, measures, training.seed)
        self.training = training
        self.say(f"snake compiled: {compile_snake(self.device)}")
        self.ear = None if run.ear is None else Ear(run.ear)
        self.codec = load_codec(run.start).to(self.device).train()
        if self.codec.shape != config.codec:
            raise ValueError(f"{run.start}: {self.codec.shape}, configured is {config.codec}")
        self.speech, self.held_out = stores(run.speech, codes, self.device)
        self.say(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")

    @abstractmethod
    def tests(self) -> tuple[Tensor, Tensor]:
        """Codes and samples of crops of held-out speech."""

    def set_rate(self, done: float, count: int) -> None:
        """That of a moment of the run."""
        t = self.training
        self.steps.rate(rate_at(done, count, t.rate, t.final_rate, t.warmup_steps))

    def write(self, *, last: bool) -> None:
        save_codec(self.codec, self.given.out / "codec.safetensors")

    def score(self, *, last: bool) -> dict[str, Any]:
        """The spectral distance of always the same crops."""
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            tests = self.tests()
        found = self.steps.held_out(*tests)
        self.codec.train()
        return {"distance": found}
