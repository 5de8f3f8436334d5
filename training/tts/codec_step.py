"""One optimisation step of the codec in each of its phases, on static buffers: it can be one CUDA graph."""

from collections.abc import Callable
from enum import Enum
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from training.tts.codec import Codec
from training.tts.config import FRAME, LABEL, CodecTraining
from training.tts.crops import Crops
from training.tts.discriminators import Discriminators, verdict
from training.tts.graph import adamw, apply, autocast, captured, set_rate
from training.tts.layers import SnakeBeta, snake
from training.tts.phones import UNKNOWN
from training.tts.spectra import SpectralDistance

MEASURES = (
    "spectral distance", "phone cross-entropy", "commitment", "gradient norm", "telling", "fooling", "likeness",
    "share",
)  # fmt: skip
_BETAS, _DECAY = (0.8, 0.99), 1e-3
_TELLING_CLIP = 10.0


class Phase(Enum):
    """UNQUANTISED: the encoder reaches the decoder past the codebooks. JOINT: through them. ADVERSARIAL: the same
    with discriminators.
    """

    UNQUANTISED = "unquantised"
    JOINT = "joint"
    ADVERSARIAL = "adversarial"


def compile_snake(device: torch.device) -> bool:
    """Fuse Snake's element-wise operations on a GPU; False (and the plain function) where that does not work."""
    if device.type != "cuda":
        return False
    compiled = torch.compile(snake, dynamic=True)
    try:
        for channels in (16, 32):
            x = torch.randn(2, 64 * channels, channels, device=device, dtype=torch.bfloat16, requires_grad=True)
            factor = torch.ones(1, channels, 1, device=device, requires_grad=True)
            compiled(x.transpose(1, 2), factor, factor).float().sum().backward()
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
        self, codec: Codec, training: CodecTraining, crops: Crops, device: torch.device, *, graphs: bool
    ) -> None:
        self.codec, self.training, self.crops, self.device, self._graphs = codec, training, crops, device, graphs
        self.distance = SpectralDistance(training.magnitude_weight).to(device)
        self.discriminators = Discriminators(training.period_widths, training.spectrum_width).to(device).train()
        self.optimizer = adamw(list(codec.parameters()), device, _BETAS, _DECAY)
        self.telling = adamw(list(self.discriminators.parameters()), device, _BETAS, _DECAY)
        self.measures = torch.zeros(len(MEASURES), device=device)
        self.adversarial = torch.zeros((), device=device)  # of `adversarial_share`: how much of it holds now, 0..1

    def phase(self, phase: Phase) -> tuple[Callable[[float], None], Callable[[], None]]:
        """(set the rate, do one step); the step fills its own buffers."""
        t, device = self.training, self.device
        self._wave = torch.zeros(t.batch, 1, t.frames * FRAME, device=device)
        self._labels = torch.zeros(t.batch, t.frames * (FRAME // LABEL), dtype=torch.long, device=device)
        self._start = torch.zeros(2 * t.batch, dtype=torch.long, device=device)
        last = t.frames - t.slice_frames - t.history_frames

        def fill() -> None:
            crop = self.crops.take(t.batch, t.frames)
            self._wave.copy_(crop.wave)
            self._labels.copy_(crop.labels)
            self._start.copy_(torch.randint(0, last + 1, (2 * t.batch,), device=device))

        self._rate(1e-6)
        step, _ = captured(lambda: self._step(phase), fill, device, graphs=self._graphs)

        def run() -> None:
            fill()
            step()

        return self._rate, run

    def _rate(self, rate: float) -> None:
        t = self.training
        set_rate(self.optimizer, rate)
        set_rate(self.telling, rate * t.discriminator_rate / t.rate)

    def _step(self, phase: Phase) -> None:
        t, codec, quantizer = self.training, self.codec, self.codec.decoder.quantizer
        with autocast(self.device):
            z = codec.encoder(self._wave)
            free = phase is Phase.UNQUANTISED
            quantised = quantizer.bypass(z) if free else quantizer(z.float(), t.ema, t.dead_usage)
            hidden = codec.decoder.latents(quantised.value).repeat(2, 1, 1)
            decoded = codec.decoder.vocode(cut(hidden, self._start, t.slice_frames + t.history_frames))
            decoded = decoded[..., t.history_frames * FRAME :]
            real = cut(
                self._wave.repeat(2, 1, 1), (self._start + t.history_frames) * FRAME, t.slice_frames * FRAME
            ).contiguous()
            heard = decoded.detach().contiguous().requires_grad_()
            distance = self.distance(heard, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), self._labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (self._labels != UNKNOWN).sum().clamp(min=1)
            beside = t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (pull,) = torch.autograd.grad(t.mel_weight * distance, heard)
        self.optimizer.zero_grad(set_to_none=True)
        judged = phase is Phase.ADVERSARIAL
        torch.autograd.backward([beside, decoded], [torch.ones_like(beside), pull], retain_graph=judged)
        if judged:
            self._add(decoded, self._judge(heard, real))
        for i, value in enumerate((distance, phone, quantised.commitment)):
            self.measures[i] = value.detach().float()
        self.measures[3] = apply([self.optimizer], t.clip)

    def _judge(self, heard: Tensor, real: Tensor) -> Tensor:
        """A step of the discriminators on the first slice of every crop; the gradient of what fools them at `heard`."""
        t, count = self.training, self.training.batch
        made = heard.detach()[:count].requires_grad_()
        with autocast(self.device):
            found = verdict(self.discriminators(real[:count]), self.discriminators(made))
        (push,) = torch.autograd.grad(found.fooling + t.likeness_weight * found.likeness, made, retain_graph=True)
        parameters = list(self.discriminators.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(found.telling, parameters), strict=True):
            parameter.grad = gradient
        apply([self.telling], _TELLING_CLIP)
        for i, value in enumerate(found):
            self.measures[4 + i] = value.detach()
        return torch.cat([push, torch.zeros_like(heard[count:])])

    def _add(self, decoded: Tensor, push: Tensor) -> None:
        """Add the discriminators' gradient to that of the vocoder's parameters, as a share of its norm there: at the
        waveform it is small but points one way in every sample, which the parameters sum up. The share is in
        proportion to what the discriminators tell: what fools ones that tell nothing is noise, and takes from them
        what they learn.
        """
        parameters = list(self.codec.decoder.vocoder())
        added = torch.autograd.grad(decoded, parameters, push)
        held = [cast(Tensor, p.grad) for p in parameters]
        ours, theirs = (torch.stack(torch._foreach_norm(g)).norm() for g in (held, list(added)))
        told = (2.0 - self.measures[4]).clamp(0.0, 1.0)
        share = self.adversarial * self.training.adversarial_share * told
        scale = share * ours / theirs.clamp(min=1e-12)
        for gradient, more in zip(held, added, strict=True):
            gradient.add_(scale * more)
        self.measures[7] = share

    def state(self) -> dict[str, Any]:
        """Everything that steps change."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        return {
            "codec": self.codec, "discriminators": self.discriminators,
            "optimizer": self.optimizer, "telling": self.telling,
        }  # fmt: skip

    @torch.no_grad()
    def held_out(self, wave: Tensor) -> float:
        """Spectral distance of crops [B, 1, 1920 · frames] to themselves by way of the codes."""
        with autocast(self.device):
            quantised = self.codec.decoder.quantizer(self.codec.encoder(wave).float(), None, 0.0)
            decoded = self.codec.decoder.vocode(self.codec.decoder.latents(quantised.value))
        return float(self.distance(decoded.float(), wave))

    @torch.no_grad()
    def begin_codebooks(self, batches: int = 32) -> None:
        """k-means of all books over encoder outputs of a few batches."""
        t = self.training
        self.codec.eval()
        z = torch.cat([self.codec.encoder(self.crops.take(t.batch, t.frames).wave).float() for _ in range(batches)])
        vectors = z.shape[0] * z.shape[2]
        usage = t.batch * t.frames / self.codec.shape.codebook_size
        if vectors < self.codec.shape.codebook_size:
            raise ValueError(
                f"codec_training.batch × frames: {vectors} vectors do not make {self.codec.shape.codebook_size} entries"
            )
        self.codec.decoder.quantizer.cluster(z, usage)
        self.codec.train()
