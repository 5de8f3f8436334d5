"""A run of the codec's decoder on fixed codes, against discriminators."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from training.learner import autocast
from training.ranks import Ranks
from training.tts.config import Config, DecoderTraining
from training.tts.crops import Store
from training.tts.decoder import Decoder
from training.tts.discriminators import Discriminators, verdict
from training.tts.ear import Ear
from training.tts.run import TEST_CROPS, SliceRun, SliceStep, SliceTrainer, learner

MEASURES = ("spectral distance", "telling", "fooling", "likeness", "ear distance", "gradient norm")


class DecoderStep(SliceStep):
    """Weights, optimisers and buffers of a run."""

    training: DecoderTraining

    def __init__(
        self, decoder: Decoder, training: DecoderTraining, speech: Store, ear: Ear | None, ranks: Ranks
    ) -> None:
        judges = Discriminators(training.period_widths, training.spectrum_width).to(ranks.device).train()
        # Neither the books nor what leads to them get a gradient, so the encoder's codes stay.
        for part in (decoder.quantizer.rvq_first, decoder.quantizer.rvq_rest):
            part.input_proj.requires_grad_(False)
        parts = {
            "decoder": decoder,
            "discriminators": judges,
            "optimizer": learner(decoder, ranks.device, training.clip),
            "discriminators' optimizer": learner(judges, ranks.device, training.clip),
        }
        super().__init__(training, decoder, MEASURES, ear, ranks, parts)
        self.speech, self.discriminators = speech, judges

    def begin(self) -> Callable[[], None]:
        """What does one step."""
        t = self.training
        return self.whole(lambda: (*self.speech.crop(t.batch, t.frames), self.starts()), self._gradients)

    def _gradients(self, wave: Tensor, codes: Tensor, start: Tensor) -> None:
        t = self.training
        with autocast(self.device):
            decoded, real = self.slices(self.decoder.quantizer.decode(codes), wave, start)
            judged = decoded.detach().contiguous().requires_grad_()
            distance, heard = self.distance(judged, real), self.heard(judged, real)
            found = verdict(self.discriminators(real), self.discriminators(judged))
        loss = t.mel_weight * distance + found.fooling + t.likeness_weight * found.likeness + t.ear_weight * heard
        (pull,) = torch.autograd.grad(loss, judged, retain_graph=True)
        torch.autograd.backward(found.telling, inputs=list(self.discriminators.parameters()))
        decoded.backward(pull)
        self.measure(distance, found.telling, found.fooling, found.likeness, heard)


@dataclass(frozen=True, kw_only=True)
class DecoderRun(SliceRun):
    """start: the codec that made the codes; codes: files of `encode` of the speech, and of `own-codes` of such a
    file.
    """

    codes: tuple[Path, ...]


class DecoderTrainer(SliceTrainer):
    """A run on fixed codes."""

    def __init__(self, config: Config, run: DecoderRun) -> None:
        super().__init__("decoder", MEASURES, config, config.decoder_training, run, run.codes)
        self.steps = DecoderStep(self.codec.decoder, config.decoder_training, self.speech, self.ear, self.ranks)
        self.take(self.steps.parts)
        self._step = self.steps.begin()

    def step(self, done: float) -> Tensor:
        self.set_rate(done, self.count)
        self._step()
        return self.steps.measures

    def tests(self) -> tuple[Tensor, Tensor]:
        wave, codes = self.held_out.crop(TEST_CROPS, self.training.frames)
        return codes, wave
