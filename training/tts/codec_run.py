"""Runs of the codec's encoder, for a decoder that stays as it is, and of its decoder, on codes that stay: their steps
on slices of crops, and their score.

The encoder learns past the codebooks first, then through them; the decoder learns against discriminators, which can
learn alone before.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.learner import Learner, Step, autocast
from training.parts import load_parts, told
from training.ranks import Ranks
from training.run import CANDIDATE, Given, Trainer, rate_at, take
from training.tts.codec import ENCODING, Codec, load_codec, save_codec
from training.tts.config import FRAME, UNKNOWN, CodecTraining, Config, DecoderTraining
from training.tts.crops import Store, stores
from training.tts.decoder import Decoder
from training.tts.discriminators import Discriminators, verdict
from training.tts.ear import Ear
from training.tts.layers import compile_snake
from training.tts.speaker_encoder import as_recorded
from training.tts.spectra import SpectralDistance

CODEC_MEASURES = "spectral distance", "phone cross-entropy", "commitment", "ear distance", "gradient norm"
DECODER_MEASURES = "spectral distance", "telling", "fooling", "likeness", "ear distance", "gradient norm"
TEST_CROPS = 32
"""Crops of held-out speech by which a run is scored."""


def cut(x: Tensor, start: Tensor, length: int) -> Tensor:
    """Cut x [B, C, T] at each row's start int64 [B] -> [B, C, length]."""
    index = start[:, None] + torch.arange(length, device=x.device)
    return torch.gather(x, 2, index[:, None].expand(-1, x.shape[1], -1))


def learner(module: nn.Module, device: torch.device, clip: float) -> Learner:
    """Give the learner of what learns in a part of the codec, or in its judges."""
    return Learner([{"params": list(module.parameters()), "weight_decay": 1e-3}], device, (0.8, 0.99), clip)


class SliceStep(Step):
    """A step on slices of crops, and what slices are compared by."""

    def __init__(
        self, training: CodecTraining | DecoderTraining, decoder: Decoder, measures: Sequence[str], ear: Ear | None,
        ranks: Ranks, parts: Mapping[str, nn.Module | Learner],
    ) -> None:  # fmt: skip
        super().__init__(ranks, measures, parts)
        self.slicing, self.decoder = training, decoder
        self.ear = None if ear is None else ear.to(self.device)
        self.distance = SpectralDistance(training.magnitude_weight).to(self.device)

    def starts(self) -> Tensor:
        """Draw where in the crops of a batch slices begin, with what is decoded before them: frames int64 [B]."""
        t = self.slicing
        return torch.randint(0, t.frames - t.slice_frames - t.history_frames + 1, (t.batch,), device=self.device)

    def slices(self, quantised: Tensor, wave: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        """Give a slice of each crop: decoded from [B, codebook_dim, T], and of the waves [B, 1, 1920 · T]
        themselves."""
        size, history = self.slicing.slice_frames, self.slicing.history_frames
        decoded = self.decoder.vocode(cut(self.decoder.latents(quantised), start, history + size))
        return decoded[..., history * FRAME :], cut(wave, (start + history) * FRAME, size * FRAME)

    def heard(self, decoded: Tensor, real: Tensor) -> Tensor:
        """Tell how far the ear finds them apart; 0 without one."""
        return real.new_zeros(()) if self.ear is None else self.ear(decoded, real)

    @torch.no_grad()
    def held_out(self, codes: Tensor, wave: Tensor) -> float:
        """Give the spectral distance of what codes [B, K, T] stand for to waves [B, 1, 1920 · T]."""
        with autocast(self.device):
            decoded = self.decoder.vocode(self.decoder.latents(self.decoder.quantizer.decode(codes)))
        return float(self.distance(decoded.float(), wave))


class CodecStep(SliceStep):
    """The weights, optimiser and buffers of a run. What decodes does not learn."""

    def __init__(self, codec: Codec, training: CodecTraining, speech: Store, ear: Ear | None, ranks: Ranks) -> None:
        for name, parameter in codec.named_parameters():
            parameter.requires_grad_(ENCODING.match(name) is not None)
        parts = {"codec": codec, "optimizer": learner(codec, ranks.device, training.clip)}
        super().__init__(training, codec.decoder, CODEC_MEASURES, ear, ranks, parts)
        self.training, self.codec, self.speech = training, codec, speech

    def begin(self, *, free: bool) -> Callable[[], None]:
        """Give a function that does one step. free: the encoder reaches the decoder past the codebooks."""
        t = self.training

        def draw() -> tuple[Tensor, ...]:
            wave, labels = self.speech.crop(t.batch, t.frames, t.gain)
            # Recordings have no phone labels to learn from. So ours are heard as recordings are, and decoded as they
            # were said.
            far = torch.rand(len(wave), 1, device=self.device) < t.recorded
            return wave, torch.where(far, as_recorded(wave[:, 0]), wave[:, 0])[:, None], labels, self.starts()

        return self.whole(draw, partial(self._gradients, free=free))

    def _gradients(self, wave: Tensor, far: Tensor, labels: Tensor, start: Tensor, *, free: bool) -> None:
        t, codec, quantizer = self.training, self.codec, self.decoder.quantizer
        with autocast(self.device):
            z = codec.encoder(far)
            quantised = quantizer.bypass(z) if free else quantizer(z.float())
            decoded, real = self.slices(quantised.value, wave, start)
            distance, heard = self.distance(decoded, real), self.heard(decoded, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (labels != UNKNOWN).sum().clamp(min=1)
        loss = t.mel_weight * distance + t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (loss + t.ear_weight * heard).backward()
        self.measure(distance, phone, quantised.commitment, heard)


class DecoderStep(SliceStep):
    """The weights, optimisers and buffers of a run. alone: only the discriminators learn."""

    def __init__(
        self, decoder: Decoder, training: DecoderTraining, speech: Store, ear: Ear | None, ranks: Ranks,
        *, alone: bool = False,
    ) -> None:  # fmt: skip
        judges = Discriminators(training.period_widths, training.spectrum_width).to(ranks.device).train()
        # Neither the books nor what leads to them get a gradient, so that the encoder's codes stay.
        for part in (decoder.quantizer.rvq_first, decoder.quantizer.rvq_rest):
            part.input_proj.requires_grad_(False)
        own = {} if alone else {"decoder": decoder, "optimizer": learner(decoder, ranks.device, training.clip)}
        # A run that begins with discriminators which have learnt takes these two by their names.
        self.judging = {
            "discriminators": judges,
            "discriminators' optimizer": learner(judges, ranks.device, training.clip),
        }
        super().__init__(training, decoder, DECODER_MEASURES, None if alone else ear, ranks, own | self.judging)
        self.training, self.speech, self.discriminators, self._alone = training, speech, judges, alone

    def begin(self) -> Callable[[], None]:
        """Give a function that does one step."""
        t = self.training
        return self.whole(lambda: (*self.speech.crop(t.batch, t.frames), self.starts()), self._gradients)

    def _gradients(self, wave: Tensor, codes: Tensor, start: Tensor) -> None:
        t = self.training
        with autocast(self.device):
            with torch.set_grad_enabled(not self._alone):
                decoded, real = self.slices(self.decoder.quantizer.decode(codes), wave, start)
            judged = decoded.detach().contiguous().requires_grad_(not self._alone)
            distance, heard = self.distance(judged, real), self.heard(judged, real)
            found = verdict(self.discriminators(real), self.discriminators(judged))
        pull: Tensor | None = None
        if not self._alone:
            loss = t.mel_weight * distance + found.fooling + t.likeness_weight * found.likeness + t.ear_weight * heard
            (pull,) = torch.autograd.grad(loss, judged, retain_graph=True)
        torch.autograd.backward(found.telling, inputs=list(self.discriminators.parameters()))
        if pull is not None:
            decoded.backward(pull)
        self.measure(distance, found.telling, found.fooling, found.likeness, heard)


@dataclass(frozen=True, kw_only=True)
class CodecRun(Given):
    """What a run is given. start: folder `codec` of `training.tts shipped`, or `weights` of a run; speech: folders of
    the voices' shards; ear: folder of `training.asr shipped`, by what it hears slices are compared too."""

    start: Path
    speech: tuple[Path, ...]
    ear: Path | None = None


@dataclass(frozen=True, kw_only=True)
class DecoderRun(CodecRun):
    """start: the codec that made the codes; codes: files of `encode` of the speech, and of `own-codes` of such a
    file; alone: only the discriminators learn, so that no decoder is judged by such as know nothing; judges: folder
    `state` of a run in which they learnt."""

    codes: tuple[Path, ...]
    alone: bool = False
    judges: Path | None = None


class SliceTrainer(Trainer):
    """The codec, and its score; what is derived makes its steps.

    Raises:
        ValueError: the codec is of another shape than the configured one.
    """

    steps: SliceStep

    def __init__(
        self, name: str, measures: Sequence[str], config: Config, training: CodecTraining | DecoderTraining,
        run: CodecRun, codes: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        """codes: files of codes beside the speech, in place of phone labels."""
        super().__init__(name, run, config, measures, training.seed)
        self.say(f"snake compiled: {compile_snake(self.device)}")
        self.ear = None if run.ear is None else Ear(run.ear)
        self.codec = load_codec(run.start).to(self.device).train()
        if self.codec.shape != config.codec:
            raise ValueError(f"{run.start}: {self.codec.shape}, configured is {config.codec}")
        self.speech, self.held_out = stores(run.speech, self.device, codes)
        self.say(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")

    @abstractmethod
    def tests(self) -> tuple[Tensor, Tensor]:
        """Give codes and samples of crops of held-out speech."""

    def write(self, *, last: bool) -> None:
        save_codec(self.codec, self.given.out / CANDIDATE, steps=self.count)

    def score(self, *, last: bool) -> dict[str, Any]:
        """Give the spectral distance of always the same crops."""
        self.codec.eval()
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.seed)
            tests = self.tests()
        found = self.steps.held_out(*tests)
        self.codec.train()
        return {"distance": found}


class CodecTrainer(SliceTrainer):
    """The run of the codec's encoder. The first `unquantised_steps` of one that has learnt nothing go past the
    codebooks."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        training = config.codec_training
        self.training = training = replace(training, batch=max(round(training.batch * run.scale), 2))
        super().__init__("codec", CODEC_MEASURES, config, training, run)
        self.steps = CodecStep(self.codec, training, self.speech, self.ear, self.ranks)
        self._free = 0 if told(run.start).get("steps") else training.unquantised_steps
        self._step: Callable[[], None] | None = None
        self.take(self.steps.parts)

    def step(self, done: float) -> Tensor:
        t = self.training
        if self._step is None or self.count == self._free:
            # The memory of the step before serves the next one.
            self._step = None
            self._step = self.steps.begin(free=self.count < self._free)
        self.steps.rate(rate_at(done, self.count, t.rate, t.final_rate, t.warmup_steps))
        self._step()
        return self.steps.measures

    def tests(self) -> tuple[Tensor, Tensor]:
        wave, _ = self.held_out.crop(TEST_CROPS, self.training.frames)
        return self.codec.encode(wave), wave


class DecoderTrainer(SliceTrainer):
    """The run of the codec's decoder on fixed codes, or of what judges it alone, which leaves no weights."""

    def __init__(self, config: Config, run: DecoderRun) -> None:
        training = config.decoder_training
        self.training = training = replace(training, batch=max(round(training.batch * run.scale), 2))
        name = "judges" if run.alone else "decoder"
        super().__init__(name, DECODER_MEASURES, config, training, run, run.codes)
        self._alone = run.alone
        self.steps = DecoderStep(self.codec.decoder, training, self.speech, self.ear, self.ranks, alone=run.alone)
        if run.judges is not None:
            take(self.steps.judging, load_parts(run.judges)[0])
        self.take(self.steps.parts)
        self._step = self.steps.begin()

    def step(self, done: float) -> Tensor:
        t = self.training
        self.steps.rate(rate_at(done, self.count, t.rate, t.final_rate, t.warmup_steps))
        self._step()
        return self.steps.measures

    def write(self, *, last: bool) -> None:
        if not self._alone:
            super().write(last=last)

    def tests(self) -> tuple[Tensor, Tensor]:
        wave, codes = self.held_out.crop(TEST_CROPS, self.training.frames)
        return codes, wave
