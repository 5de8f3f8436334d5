"""One optimisation step of the codec, past its codebooks or through them, on static buffers: it can be one CUDA
graph.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from training.tts.codec import Codec
from training.tts.config import FRAME, LABEL, CodecTraining
from training.tts.crops import Store
from training.tts.ear import Ear
from training.tts.graph import adamw, apply, autocast, captured, set_rate
from training.tts.layers import SnakeBeta, snake
from training.tts.phones import UNKNOWN
from training.tts.spectra import SpectralDistance

MEASURES = ("spectral distance", "phone cross-entropy", "commitment", "ear distance", "gradient norm")
_BETAS, _DECAY = (0.8, 0.99), 1e-3


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
    """Weights, optimiser and buffers of a run; `begin` gives the function that does one step."""

    def __init__(
        self,
        codec: Codec,
        training: CodecTraining,
        speech: Store,
        ear: Ear | None,
        device: torch.device,
        *,
        graphs: bool,
    ) -> None:
        self.codec, self.training, self.speech, self.device, self._graphs = codec, training, speech, device, graphs
        self.ear = None if ear is None else ear.to(device)
        self.distance = SpectralDistance(training.magnitude_weight).to(device)
        self.optimizer = adamw(codec.parameters(), device, _BETAS, _DECAY)
        self.measures = torch.zeros(len(MEASURES), device=device)

    def begin(self, *, free: bool) -> Callable[[], None]:
        """What does one step and fills its own buffers; `free`: the encoder reaches the decoder past the codebooks."""
        t, device = self.training, self.device
        self._wave = torch.zeros(t.batch, 1, t.frames * FRAME, device=device)
        self._labels = torch.zeros(t.batch, t.frames * (FRAME // LABEL), dtype=torch.long, device=device)
        self._start = torch.zeros(t.batch, dtype=torch.long, device=device)
        last = t.frames - t.slice_frames - t.history_frames

        def fill() -> None:
            crop = self.speech.crop(t.batch, t.frames, t.gain)
            self._wave.copy_(crop.wave)
            self._labels.copy_(crop.labels)
            self._start.copy_(torch.randint(0, last + 1, (t.batch,), device=device))

        self.rate(1e-6)
        step, _ = captured(lambda: self._step(free=free), fill, device, graphs=self._graphs)

        def run() -> None:
            fill()
            step()

        return run

    def rate(self, value: float) -> None:
        """Set the rate of learning."""
        set_rate(self.optimizer, value)

    def _step(self, *, free: bool) -> None:
        t, codec, quantizer = self.training, self.codec, self.codec.decoder.quantizer
        with autocast(self.device):
            z = codec.encoder(self._wave)
            quantised = quantizer.bypass(z) if free else quantizer(z.float(), t.ema, t.dead_usage)
            hidden = codec.decoder.latents(quantised.value)
            decoded = codec.decoder.vocode(cut(hidden, self._start, t.slice_frames + t.history_frames))
            decoded = decoded[..., t.history_frames * FRAME :]
            real = cut(self._wave, (self._start + t.history_frames) * FRAME, t.slice_frames * FRAME)
            distance = self.distance(decoded, real)
            apart = distance.new_zeros(()) if self.ear is None else self.ear(decoded, real)
            logits = codec.phone_logits(quantised.semantic).float()
            phone = F.cross_entropy(logits.transpose(1, 2), self._labels, ignore_index=UNKNOWN, reduction="sum")
            phone = phone / (self._labels != UNKNOWN).sum().clamp(min=1)
        self.optimizer.zero_grad(set_to_none=True)
        loss = t.mel_weight * distance + t.phone_weight * phone + t.commitment_weight * quantised.commitment
        (loss + t.ear_weight * apart).backward()
        norm = apply(self.optimizer, t.clip)
        for i, value in enumerate((distance, phone, quantised.commitment, apart, norm)):
            self.measures[i] = value.detach().float()

    def state(self) -> dict[str, Any]:
        """Everything that steps change."""
        return {"codec": self.codec.state_dict(), "optimizer": self.optimizer.state_dict()}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        self.codec.load_state_dict(state["codec"])
        self.optimizer.load_state_dict(state["optimizer"])

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
        z = torch.cat([self.codec.encoder(self.speech.crop(t.batch, t.frames).wave).float() for _ in range(batches)])
        vectors = z.shape[0] * z.shape[2]
        usage = t.batch * t.frames / self.codec.shape.codebook_size
        if vectors < self.codec.shape.codebook_size:
            raise ValueError(
                f"codec_training.batch × frames: {vectors} vectors do not make {self.codec.shape.codebook_size} entries"
            )
        self.codec.decoder.quantizer.cluster(z, usage)
        self.codec.train()
