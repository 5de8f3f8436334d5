"""A run of codec training: a number of seconds, past the codebooks first, then through them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from training.ranks import Ranks
from training.tts.codec import Codec, load_codec
from training.tts.config import CodecTraining, Config
from training.tts.crops import Store
from training.tts.ear import Ear
from training.tts.graph import Learner, autocast
from training.tts.phones import UNKNOWN
from training.tts.run import BETAS, DECAY, TEST_CROPS, Run, Step, Trainer
from training.tts.speech import load_shard, shards

MEASURES = ("spectral distance", "phone cross-entropy", "commitment", "ear distance", "gradient norm")
_HELD_OUT_HOURS = 0.5


class CodecStep(Step[CodecTraining]):
    """Weights, optimiser and buffers of a run."""

    def __init__(
        self, codec: Codec, training: CodecTraining, speech: Store, ear: Ear | None, ranks: Ranks, *, graphs: bool
    ) -> None:
        super().__init__(training, codec.decoder, MEASURES, ear, ranks, graphs=graphs)
        self.codec, self.speech = codec, speech
        groups = [{"params": list(codec.parameters()), "weight_decay": DECAY}]
        self.learner = Learner(groups, self.device, BETAS, training.clip)
        self.modules, self.learners = {"codec": codec}, {"optimizer": self.learner}

    def draw(self) -> tuple[Tensor, ...]:
        return self.speech.crop(self.training.batch, self.training.frames, self.training.gain)

    def shared(self) -> list[Tensor]:
        return list(self.decoder.quantizer.buffers())

    def begin(self, *, free: bool) -> Callable[[], None]:
        """What does one step and fills its own buffers; `free`: the encoder reaches the decoder past the codebooks."""
        return self.captured(lambda: self._gradients(free=free))

    def _gradients(self, *, free: bool) -> None:
        t, codec, quantizer = self.training, self.codec, self.decoder.quantizer
        wave, labels = self.crop
        with autocast(self.device):
            z = codec.encoder(wave)
            quantised = quantizer.bypass(z) if free else quantizer(z.float(), t.ema, t.dead_usage)
            decoded, real = self.slices(quantised.value, wave)
            distance, heard = self.distance(decoded, real), self.heard(decoded, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (labels != UNKNOWN).sum().clamp(min=1)
        loss = t.mel_weight * distance + t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (loss + t.ear_weight * heard).backward()
        self.measure(distance, phone, quantised.commitment, heard)

    @torch.no_grad()
    def begin_codebooks(self, batches: int = 32) -> None:
        """k-means of all books over encoder outputs of a few batches."""
        t = self.training
        self.codec.eval()
        z = torch.cat([self.codec.encoder(self.speech.crop(t.batch, t.frames).wave).float() for _ in range(batches)])
        vectors = z.shape[0] * z.shape[2]
        usage = t.batch * t.frames / self.codec.shape.codebook_size
        if vectors < self.codec.shape.codebook_size:
            raise ValueError(
                f"codec_training.batch × frames: {vectors} vectors do not make {self.codec.shape.codebook_size} entries"
            )
        self.codec.decoder.quantizer.cluster(z, usage)
        self._ranks.copy(self.shared())
        self.codec.train()


@dataclass(frozen=True, kw_only=True)
class CodecRun(Run):
    """start: a codec.safetensors to begin from; hours: of speech at most."""

    start: Path | None = None
    hours: float = 40.0


class CodecTrainer(Trainer[CodecStep]):
    """Owns the codec, its step and the progress of one run."""

    def __init__(self, config: Config, run: CodecRun) -> None:
        t = config.codec_training
        super().__init__("codec", MEASURES, config, t, run)
        self.codec = load_codec(run.start) if run.start else Codec(config.codec)
        if self.codec.shape != config.codec:
            raise ValueError(f"{run.start}: {self.codec.shape}, configured is {config.codec}")
        self.codec.to(self.device).train()
        self.speech, self.held_out = Store(run.hours, self.device), Store(_HELD_OUT_HOURS, self.device)
        for shard in map(load_shard, shards(run.speech)):
            for utterance, wave, labels in shard.pieces():
                (self.held_out if utterance.held_out else self.speech).add(wave, labels)
            if self.speech.full:
                break
        self.say(f"{self.speech.hours:.2f} h, held out {self.held_out.hours:.2f} h")
        self.step = CodecStep(self.codec, t, self.speech, self.ear, self.ranks, graphs=run.graphs)
        self.free = 0 if run.start else t.unquantised_steps
        self.take()

    def train(self) -> None:
        """Always leaves a checkpoint."""
        self.progress.begin()
        if self.free and not self.progress.count:
            self.go(self.step.begin(free=True), self.free, free=self.free)
            self.step.begin_codebooks()
            self.say("codebooks begun")
        self.go(self.step.begin(free=False), self.run.steps, free=self.free)
        self.save()
        self.ranks.end()

    def tests(self) -> tuple[Tensor, Tensor] | None:
        frames = self.training.frames
        if not self.held_out.fits(frames):
            return None
        wave = self.held_out.crop(TEST_CROPS, frames).wave
        return self.codec.encode(wave), wave
