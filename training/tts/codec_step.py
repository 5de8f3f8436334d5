"""One optimisation step of the codec in each of its phases, on static buffers: it can be one CUDA graph."""

from collections.abc import Callable
from enum import Enum
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from training.tts.codec import Codec
from training.tts.config import FRAME, LABEL, CodecTraining
from training.tts.crops import Crops
from training.tts.discriminators import Discriminators, discriminator_loss, generator_loss
from training.tts.graph import adamw, apply, autocast, captured, set_rate
from training.tts.intelligibility import EnvelopeDistance
from training.tts.layers import SnakeBeta, snake
from training.tts.loudness import LoudnessDistance
from training.tts.phones import UNKNOWN
from training.tts.quantizer import Quantised
from training.tts.spectra import SpectralDistance

MEASURES = (
    "spectral distance",
    "phone cross-entropy",
    "commitment",
    "gradient norm",
    "discriminators",
    "adversarial",
    "features",
    "envelopes",
    "loudness",
    "codebook 0 right",
)
_WIDTH = 5.0  # of the bell around a semantic entry within which a vector is taken for it; neighbours are about 16 away
_NOISE = 0.003  # of full scale, at most: decoded speech has less of it than recordings
_BETAS, _DECAY = (0.8, 0.99), 1e-3


class Phase(Enum):
    """TAUGHT: the encoder learns the codes of what the decoder makes of them. UNQUANTISED: the encoder reaches the
    decoder past the codebooks. JOINT: through them. GIVEN: codebooks and their projections stay as they are;
    `CodecStep.quantised_share` of the crops go through them, and the decoder has a rate of its own. ADVERSARIAL:
    encoder and codebooks are frozen, the decoder is tuned against discriminators.
    """

    TAUGHT = "taught"
    UNQUANTISED = "unquantised"
    JOINT = "joint"
    GIVEN = "given books"
    ADVERSARIAL = "adversarial"


def compile_snake(device: torch.device) -> bool:
    """Fuse Snake's element-wise operations on a GPU; False (and the plain function) where that does not work."""
    if device.type != "cuda":
        return False
    compiled = torch.compile(snake, dynamic=True)
    try:
        for channels in (16, 32):
            x = torch.randn(2, channels, 64 * channels, device=device, dtype=torch.bfloat16, requires_grad=True)
            factor = torch.ones(1, channels, 1, device=device, requires_grad=True)
            compiled(x, factor, factor).float().sum().backward()
    except Exception as error:  # a machine without a working compiler still trains
        print(f"snake is not compiled: {error!r}"[:300], flush=True)
        return False
    SnakeBeta.function = staticmethod(compiled)
    return True


def cut(x: Tensor, start: Tensor, length: int) -> Tensor:
    """x [B, C, T], start int64 [B] -> [B, C, length]."""
    index = start[:, None] + torch.arange(length, device=x.device)
    return torch.gather(x, 2, index[:, None].expand(-1, x.shape[1], -1))


class CodecStep:
    """Weights, optimisers and buffers of a run; `phase(p)` gives the function that does one step of that phase."""

    def __init__(
        self, codec: Codec, training: CodecTraining, crops: Crops, device: torch.device, *, graphs: bool,
        codes: Tensor | None = None,
    ) -> None:  # fmt: skip
        """codes int16 [frames, K]: what TAUGHT draws from."""
        self.codec, self.training, self.crops, self.device, self._graphs = codec, training, crops, device, graphs
        self.discriminators = Discriminators().to(device)
        self.distance = SpectralDistance(training.magnitude_weight).to(device)
        self.envelopes, self.loudness = EnvelopeDistance().to(device), LoudnessDistance().to(device)
        self.quantised_share = torch.ones((), device=device)  # of the crops, where books are given
        self.decoder_share = 1.0  # of the rate, where books are given
        self.adversarial_weight = torch.zeros((), device=device)  # grows while the discriminators learn
        self.measures = torch.zeros(len(MEASURES), device=device)
        self._codes = None if codes is None else codes.to(device)
        judges = list(self.discriminators.parameters())
        self._judges, self._judge_optimizer = judges, adamw(judges, device, _BETAS, _DECAY)

    def phase(self, phase: Phase) -> tuple[Callable[[float], None], Callable[[], None]]:
        """(set the rate, do one step); the step fills its own buffers."""
        t, device = self.training, self.device
        count = t.adversarial_batch if phase is Phase.ADVERSARIAL else t.batch
        self._wave = torch.zeros(count, 1, t.frames * FRAME, device=device)
        self._heard = torch.zeros_like(self._wave)
        self._labels = torch.zeros(count, t.frames * (FRAME // LABEL), dtype=torch.long, device=device)
        self._start = torch.zeros(2 * count, dtype=torch.long, device=device)
        self._given = torch.zeros(count, self.codec.shape.num_quantizers, t.frames, dtype=torch.long, device=device)
        adversarial = phase is Phase.ADVERSARIAL
        self.crops.human_share = t.adversarial_human_share if adversarial else t.human_share
        # What no optimiser holds must have no gradients: they would add up from step to step.
        given = phase in (Phase.GIVEN, Phase.TAUGHT)
        self.codec.decoder.quantizer.requires_grad_(not given)
        decoder = [p for name, p in self.codec.decoder.named_parameters() if not name.startswith("quantizer")]
        if phase is Phase.TAUGHT:
            optimizers = [adamw(self.codec.encoder.parameters(), device, _BETAS, _DECAY)]
        elif given:
            weights = [*self.codec.encoder.parameters(), *self.codec.phone_head.parameters()]
            optimizers = [adamw(weights, device, _BETAS, _DECAY), adamw(decoder, device, _BETAS, _DECAY)]
        else:
            optimizers = [adamw(decoder if adversarial else list(self.codec.parameters()), device, _BETAS, _DECAY)]

        def rate(value: float) -> None:
            for optimizer, share in zip(optimizers, (1.0, self.decoder_share), strict=False):
                set_rate(optimizer, share * value)
            set_rate(self._judge_optimizer, t.adversarial_rate)

        def fill() -> None:
            if phase is Phase.TAUGHT:
                self._given.copy_(self._draw_codes(count))
                return
            crop = self.crops.take(count, t.frames)
            self._wave.copy_(crop.wave)
            self._heard.copy_(crop.heard)
            self._labels.copy_(crop.labels)
            self._start.copy_(
                torch.randint(0, t.frames - t.slice_frames - t.history_frames + 1, (2 * count,), device=device)
            )

        rate(1e-6)
        work = self._teach if phase is Phase.TAUGHT else partial(self._step, phase)
        step, _ = captured(lambda: work(optimizers), fill, device, graphs=self._graphs)

        def run() -> None:
            fill()
            step()

        return rate, run

    def _draw_codes(self, count: int) -> Tensor:
        """Crops of the codes given, int64 [count, K, frames]; they cross the borders of utterances."""
        if self._codes is None:
            raise ValueError("codec: an encoder is taught by codes, and none are given")
        start = torch.randint(0, len(self._codes) - self.training.frames + 1, (count, 1), device=self.device)
        index = start + torch.arange(self.training.frames, device=self.device)
        return self._codes[index].long().transpose(1, 2)

    def _teach(self, optimizers: list[torch.optim.AdamW]) -> None:
        """The encoder is to find the vectors of the codes in what the decoder makes of them."""
        t, codec, quantizer = self.training, self.codec, self.codec.decoder.quantizer
        first, rest, codes = quantizer.rvq_first, quantizer.rvq_rest, self._given
        with autocast(self.device):
            with torch.no_grad():
                wave = codec.decoder(codes).float()
                gain = 1 + t.gain * (2 * torch.rand(len(wave), 1, 1, device=self.device) - 1)
                noise = _NOISE * torch.rand(len(wave), 1, 1, device=self.device)
                wave = gain * wave + noise * torch.randn_like(wave)
                table = first.vq.books[0].table()
                wanted = first.vq.decode(codes[:, :1]), rest.vq.decode(codes[:, 1:])
            z = codec.encoder(wave).float()
        found = first.input_proj(z), rest.input_proj(z)
        size = [x.square().mean() for x in wanted]
        missed = [F.mse_loss(a, b) / s for a, b, s in zip(found, wanted, size, strict=True)]
        vectors = found[0].transpose(1, 2).flatten(0, 1)
        away = vectors.square().sum(1, keepdim=True) + table.square().sum(1) - 2 * vectors @ table.t()
        target = codes[:, 0].flatten()
        loss = missed[0] + missed[1] + F.cross_entropy(-away / (2 * _WIDTH**2), target)
        self.measures[2] = (missed[0] + missed[1]).detach()
        self.measures[9] = (away.argmin(1) == target).float().mean()
        optimizers[0].zero_grad(set_to_none=True)
        loss.backward()
        self.measures[3] = apply(optimizers, t.clip)

    def _quantise(self, phase: Phase, z: Tensor) -> Quantised:
        t, quantizer = self.training, self.codec.decoder.quantizer
        if phase is Phase.UNQUANTISED:
            return quantizer.bypass(z)
        quantised = quantizer(z.float(), t.ema if phase is Phase.JOINT else None, t.dead_usage)
        if phase is not Phase.GIVEN:
            return quantised
        free = quantizer.bypass(z.float())
        closed = torch.rand(len(z), 1, 1, device=z.device) < self.quantised_share
        return quantised._replace(
            value=torch.where(closed, quantised.value, free.value),
            semantic=torch.where(closed, quantised.semantic, free.semantic),
        )

    def _step(self, phase: Phase, optimizers: list[torch.optim.AdamW]) -> None:
        t, codec = self.training, self.codec
        learning = phase is not Phase.ADVERSARIAL
        with autocast(self.device):
            with torch.set_grad_enabled(learning):
                quantised = self._quantise(phase, codec.encoder(self._heard))
            hidden = codec.decoder.latents(quantised.value).repeat(2, 1, 1)
            decoded = codec.decoder.vocode(cut(hidden, self._start, t.slice_frames + t.history_frames))
            decoded = decoded[..., t.history_frames * FRAME :]
            real = cut(
                self._wave.repeat(2, 1, 1), (self._start + t.history_frames) * FRAME, t.slice_frames * FRAME
            ).contiguous()
            distance = self.distance(decoded, real)
            loss = t.mel_weight * distance
            self.measures[0] = distance.detach()
            for i, weight, measure in ((7, t.envelope_weight, self.envelopes), (8, t.loudness_weight, self.loudness)):
                if weight:
                    found = measure(decoded, real)
                    loss = loss + weight * found
                    self.measures[i] = found.detach()
            if learning:
                logits = codec.phone_logits(quantised.semantic).float()
                phone = F.cross_entropy(logits.transpose(1, 2), self._labels, ignore_index=UNKNOWN)
                loss = loss + t.phone_weight * phone + t.commitment_weight * quantised.commitment
                self.measures[1], self.measures[2] = phone.detach(), quantised.commitment.detach().float()
            else:
                loss = loss + self._against(decoded, real)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.measures[3] = apply(optimizers, t.clip)

    def _against(self, decoded: Tensor, real: Tensor) -> Tensor:
        """A step of the discriminators; the decoder's loss against them."""
        t, judges = self.training, self.discriminators
        for p in self._judges:
            p.requires_grad_(True)
        judged = discriminator_loss(judges(real), judges(decoded.detach()))
        self._judge_optimizer.zero_grad(set_to_none=True)
        judged.backward()
        apply([self._judge_optimizer], 2 * t.clip)
        for p in self._judges:
            p.requires_grad_(False)
        with torch.no_grad():
            target = judges(real)
        adversarial, features = generator_loss(target, judges(decoded))
        self.measures[4], self.measures[5], self.measures[6] = judged.detach(), adversarial.detach(), features.detach()
        return self.adversarial_weight * adversarial + t.feature_weight * features

    @torch.no_grad()
    def begin_codebooks(self, batches: int = 32) -> None:
        """k-means of all books over encoder outputs of a few batches."""
        t = self.training
        self.codec.eval()
        z = torch.cat([self.codec.encoder(self.crops.take(t.batch, t.frames).heard).float() for _ in range(batches)])
        vectors = z.shape[0] * z.shape[2]
        usage = t.batch * t.frames / self.codec.shape.codebook_size
        if vectors < self.codec.shape.codebook_size:
            raise ValueError(
                f"codec_training.batch × frames: {vectors} vectors do not make {self.codec.shape.codebook_size} entries"
            )
        self.codec.decoder.quantizer.cluster(z, usage)
        self.codec.train()
