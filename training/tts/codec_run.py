"""A run of codec training: a number of seconds, past the codebooks first, then through them."""

from collections.abc import Callable
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from training.learner import autocast
from training.ranks import Ranks
from training.tts.codec import ENCODING, Codec
from training.tts.config import CodecTraining, Config
from training.tts.crops import Store
from training.tts.ear import Ear
from training.tts.phones import UNKNOWN
from training.tts.run import TEST_CROPS, SliceRun, SliceStep, SliceTrainer, learner

MEASURES = ("spectral distance", "phone cross-entropy", "commitment", "ear distance", "gradient norm")


class CodecStep(SliceStep):
    """Weights, optimiser and buffers of a run."""

    training: CodecTraining

    def __init__(self, codec: Codec, training: CodecTraining, speech: Store, ear: Ear | None, ranks: Ranks) -> None:
        parts = {"codec": codec, "optimizer": learner(codec, ranks.device, training.clip)}
        super().__init__(training, codec.decoder, MEASURES, ear, ranks, parts)
        self.codec, self.speech = codec, speech

    def shared(self) -> list[Tensor]:
        return list(self.decoder.quantizer.buffers())

    def begin(self, *, free: bool, still: bool = False) -> Callable[[], None]:
        """What does one step; `free`: the encoder reaches the decoder past the codebooks; `still`: what decodes does
        not learn."""
        t = self.training
        for name, parameter in self.codec.named_parameters():
            parameter.requires_grad_(not still or ENCODING.match(name) is not None)
        gradients = partial(self._gradients, free=free, ema=None if still else t.ema)
        return self.whole(lambda: (*self.speech.crop(t.batch, t.frames, t.gain), self.starts()), gradients)

    def _gradients(self, wave: Tensor, labels: Tensor, start: Tensor, *, free: bool, ema: float | None) -> None:
        t, codec, quantizer = self.training, self.codec, self.decoder.quantizer
        with autocast(self.device):
            z = codec.encoder(wave)
            quantised = quantizer.bypass(z) if free else quantizer(z.float(), ema, t.dead_usage)
            decoded, real = self.slices(quantised.value, wave, start)
            distance, heard = self.distance(decoded, real), self.heard(decoded, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (labels != UNKNOWN).sum().clamp(min=1)
        loss = t.mel_weight * distance + t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (loss + t.ear_weight * heard).backward()
        self.measure(distance, phone, quantised.commitment, heard)


class CodecTrainer(SliceTrainer):
    """The first `unquantised_steps` are past the codebooks. What `start` decodes with is
    kept: for as many steps again the encoder alone learns to reach it through the codebooks. Then all learns, and the
    rate rises anew and falls.
    """

    training: CodecTraining

    def __init__(self, config: Config, run: SliceRun) -> None:
        super().__init__("codec", MEASURES, config, config.codec_training, run)
        self.steps = CodecStep(self.codec, config.codec_training, self.speech, self.ear, self.ranks)
        self._step: Callable[[], None] | None = None
        self.take(self.steps.parts)

    def step(self, done: float) -> Tensor:
        free = self.training.unquantised_steps
        alone = 2 * free
        if self._step is None or self.count in (free, alone):
            self._step = None  # its memory is the next one's
            self._step = self.steps.begin(free=self.count < free, still=self.count < alone)
        self.set_rate(*(done, self.count - alone) if self.count >= alone else (0.0, self.count))
        self._step()
        return self.steps.measures

    def tests(self) -> tuple[Tensor, Tensor]:
        wave, _ = self.held_out.crop(TEST_CROPS, self.training.frames)
        return self.codec.encode(wave), wave
