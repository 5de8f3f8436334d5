"""One step of the codec's decoder on fixed codes, and of the discriminators that judge it, on static buffers: it can be
one CUDA graph.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from training.tts.codec_step import cut
from training.tts.config import FRAME, DecoderTraining
from training.tts.crops import CodedStore
from training.tts.decoder import Decoder
from training.tts.discriminators import Discriminators, verdict
from training.tts.ear import Ear
from training.tts.graph import adamw, apply, autocast, captured, set_rate
from training.tts.spectra import SpectralDistance

MEASURES = ("spectral distance", "telling", "fooling", "likeness", "ear distance", "gradient norm")
_BETAS, _DECAY = (0.8, 0.99), 1e-3


class DecoderStep:
    """Weights, optimisers and buffers of a run; `begin` gives the function that does one step."""

    def __init__(
        self, decoder: Decoder, training: DecoderTraining, speech: CodedStore, ear: Ear | None, device: torch.device,
        *, graphs: bool,
    ) -> None:  # fmt: skip
        self.decoder, self.training, self.speech, self.device, self._graphs = decoder, training, speech, device, graphs
        self.ear = None if ear is None else ear.to(device)
        self.distance = SpectralDistance(training.magnitude_weight).to(device)
        self.discriminators = Discriminators(training.period_widths, training.spectrum_width).to(device).train()
        # Neither the books nor what leads to them get a gradient, so the encoder's codes stay.
        self.optimizer = adamw(decoder.parameters(), device, _BETAS, _DECAY)
        self.telling = adamw(self.discriminators.parameters(), device, _BETAS, _DECAY)
        self.measures = torch.zeros(len(MEASURES), device=device)

    def begin(self) -> Callable[[], None]:
        """What does one step and fills its own buffers."""
        t, device = self.training, self.device
        codes, wave = self.speech.crop(t.batch, t.frames)
        self._codes, self._wave = codes.clone(), wave.clone()
        self._start = torch.zeros(t.batch, dtype=torch.long, device=device)
        last = t.frames - t.slice_frames - t.history_frames

        def fill() -> None:
            codes, wave = self.speech.crop(t.batch, t.frames)
            self._codes.copy_(codes)
            self._wave.copy_(wave)
            self._start.copy_(torch.randint(0, last + 1, (t.batch,), device=device))

        self.rate(1e-6)
        step, _ = captured(self._step, fill, device, graphs=self._graphs)

        def run() -> None:
            fill()
            step()

        return run

    def rate(self, value: float) -> None:
        """Set the rate of learning of both sides."""
        set_rate(self.optimizer, value)
        set_rate(self.telling, value)

    def _step(self) -> None:
        t, decoder = self.training, self.decoder
        with autocast(self.device):
            hidden = decoder.latents(decoder.quantizer.decode(self._codes))
            decoded = decoder.vocode(cut(hidden, self._start, t.slice_frames + t.history_frames))
            decoded = decoded[..., t.history_frames * FRAME :]
            real = cut(self._wave, (self._start + t.history_frames) * FRAME, t.slice_frames * FRAME)
            heard = decoded.detach().contiguous().requires_grad_()
            distance = self.distance(heard, real)
            apart = distance.new_zeros(()) if self.ear is None else self.ear(heard, real)
            found = verdict(self.discriminators(real), self.discriminators(heard))
        loss = t.mel_weight * distance + found.fooling + t.likeness_weight * found.likeness + t.ear_weight * apart
        (pull,) = torch.autograd.grad(loss, heard, retain_graph=True)
        self._tell(found.telling)
        self.optimizer.zero_grad(set_to_none=True)
        decoded.backward(pull)
        norm = apply(self.optimizer, t.clip)
        for i, value in enumerate((distance, found.telling, found.fooling, found.likeness, apart, norm)):
            self.measures[i] = value.detach().float()

    def _tell(self, telling: Tensor) -> None:
        """A step of the discriminators."""
        parameters = list(self.discriminators.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(telling, parameters), strict=True):
            parameter.grad = gradient
        apply(self.telling, self.training.clip)

    def state(self) -> dict[str, Any]:
        """Everything that steps change."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def take(self, state: dict[str, Any]) -> None:
        """Go on from `state`."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, Any]:
        return {
            "decoder": self.decoder, "discriminators": self.discriminators,
            "optimizer": self.optimizer, "discriminators' optimizer": self.telling,
        }  # fmt: skip

    @torch.no_grad()
    def held_out(self, codes: Tensor, wave: Tensor) -> float:
        """Spectral distance of what codes [B, K, T] stand for to waves [B, 1, 1920 · T]."""
        with autocast(self.device):
            decoded = self.decoder.vocode(self.decoder.latents(self.decoder.quantizer.decode(codes)))
        return float(self.distance(decoded.float(), wave))
