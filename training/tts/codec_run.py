"""A run of the codec's encoder, for a decoder that stays as it is: its steps on slices of crops, and its score."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from training.learner import Learner, Step, autocast
from training.ranks import Ranks
from training.run import CANDIDATE, Given, Trainer, rate_at
from training.tts.codec import ENCODING, Codec, load_codec, save_codec
from training.tts.config import FRAME, UNKNOWN, CodecTraining, Config
from training.tts.crops import Store, stores
from training.tts.ear import Ear
from training.tts.layers import compile_snake
from training.tts.spectra import SpectralDistance

MEASURES = "spectral distance", "phone cross-entropy", "commitment", "ear distance", "gradient norm"
TEST_CROPS = 32
"""Crops of held-out speech by which a run is scored."""


def cut(x: Tensor, start: Tensor, length: int) -> Tensor:
    """Cut x [B, C, T] at each row's start int64 [B] -> [B, C, length]."""
    index = start[:, None] + torch.arange(length, device=x.device)
    return torch.gather(x, 2, index[:, None].expand(-1, x.shape[1], -1))


class CodecStep(Step):
    """The weights, optimiser and buffers of a run. What decodes does not learn."""

    def __init__(self, codec: Codec, training: CodecTraining, speech: Store, ear: Ear | None, ranks: Ranks) -> None:
        for name, parameter in codec.named_parameters():
            parameter.requires_grad_(ENCODING.match(name) is not None)
        groups = [{"params": list(codec.parameters()), "weight_decay": 1e-3}]
        learner = Learner(groups, ranks.device, (0.8, 0.99), training.clip)
        super().__init__(ranks, MEASURES, {"codec": codec, "optimizer": learner})
        self.training, self.codec, self.speech = training, codec, speech
        self.ear = None if ear is None else ear.to(self.device)
        self.distance = SpectralDistance(training.magnitude_weight).to(self.device)

    def begin(self, *, free: bool) -> Callable[[], None]:
        """Give a function that does one step. free: the encoder reaches the decoder past the codebooks."""
        t = self.training

        def draw() -> tuple[Tensor, ...]:
            last = t.frames - t.slice_frames - t.history_frames + 1
            return *self.speech.crop(t.batch, t.frames, t.gain), torch.randint(0, last, (t.batch,), device=self.device)

        return self.whole(draw, partial(self._gradients, free=free))

    def _gradients(self, wave: Tensor, labels: Tensor, start: Tensor, *, free: bool) -> None:
        t, codec, decoder = self.training, self.codec, self.codec.decoder
        with autocast(self.device):
            z = codec.encoder(wave)
            quantised = decoder.quantizer.bypass(z) if free else decoder.quantizer(z.float())
            latents = cut(decoder.latents(quantised.value), start, t.history_frames + t.slice_frames)
            decoded = decoder.vocode(latents)[..., t.history_frames * FRAME :]
            real = cut(wave, (start + t.history_frames) * FRAME, t.slice_frames * FRAME)
            distance = self.distance(decoded, real)
            heard = real.new_zeros(()) if self.ear is None else self.ear(decoded, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (labels != UNKNOWN).sum().clamp(min=1)
        loss = t.mel_weight * distance + t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (loss + t.ear_weight * heard).backward()
        self.measure(distance, phone, quantised.commitment, heard)

    @torch.no_grad()
    def held_out(self, wave: Tensor) -> float:
        """Give the spectral distance between waves [B, 1, 1920 · T] and what their codes stand for."""
        codes = self.codec.encode(wave)
        with autocast(self.device):
            decoded = self.codec.decoder.vocode(self.codec.decoder.latents(self.codec.decoder.quantizer.decode(codes)))
        return float(self.distance(decoded.float(), wave))


@dataclass(frozen=True, kw_only=True)
class CodecRun(Given):
    """What a run is given. start: folder `codec` of `training.tts shipped`, or `weights` of a run; speech: folders of
    the voices' shards; ear: folder of `training.asr shipped`, by what it hears slices are compared too."""

    start: Path
    speech: tuple[Path, ...]
    ear: Path | None = None


class CodecTrainer(Trainer):
    """The run of the codec's encoder. Its first `unquantised_steps` go past the codebooks.

    Raises:
        ValueError: the codec is of another shape than the configured one.
    """

    def __init__(self, config: Config, run: CodecRun) -> None:
        training = replace(config.codec_training, batch=max(round(config.codec_training.batch * run.scale), 2))
        super().__init__("codec", run, config, MEASURES, training.seed)
        self.training = training
        self.say(f"snake compiled: {compile_snake(self.device)}")
        ear = None if run.ear is None else Ear(run.ear)
        self.codec = load_codec(run.start).to(self.device).train()
        if self.codec.shape != config.codec:
            raise ValueError(f"{run.start}: {self.codec.shape}, configured is {config.codec}")
        speech, self.held_out = stores(run.speech, self.device)
        self.say(f"{speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")
        self.steps = CodecStep(self.codec, training, speech, ear, self.ranks)
        self._step: Callable[[], None] | None = None
        self.take(self.steps.parts)

    def step(self, done: float) -> Tensor:
        t = self.training
        if self._step is None or self.count == t.unquantised_steps:
            # The memory of the step before serves the next one.
            self._step = None
            self._step = self.steps.begin(free=self.count < t.unquantised_steps)
        self.steps.rate(rate_at(done, self.count, t.rate, t.final_rate, t.warmup_steps))
        self._step()
        return self.steps.measures

    def write(self, *, last: bool) -> None:
        save_codec(self.codec, self.given.out / CANDIDATE, steps=self.count)

    def score(self, *, last: bool) -> dict[str, Any]:
        """Give the spectral distance of always the same crops."""
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            wave, _ = self.held_out.crop(TEST_CROPS, self.training.frames)
        found = self.steps.held_out(wave)
        self.codec.train()
        return {"distance": found}
