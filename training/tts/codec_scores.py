"""Scores of held-out speech through a codec in training, a voice at a time.

Contract: the weights are the caller's, as they are at the moment of the call and in evaluation; nothing is changed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from training.tts.codec_step import CodecStep, Phase
from training.tts.config import FRAME
from training.tts.crops import Voice

_FRAMES = 100  # of a piece
_MOST = 24  # pieces of a voice
_NAMES = ("distance", "envelopes", "loudness", "entries")


class Listening:
    """Listens to the held-out speech of some voices through the codec of a step, with the step's own measures."""

    def __init__(self, step: CodecStep, held_out: Mapping[str, Voice]) -> None:
        self._step, self._held_out = step, held_out

    def scores(self, phase: Phase) -> Iterator[tuple[str, dict[str, float]]]:
        """Of every voice that has a whole piece: spectral distance through the codes, and past them (`unquantised`:
        what the same decoder loses with no codebooks between); through the codes also the distances of envelopes and
        loudness, and how many semantic entries occur.
        """
        for name, voice in self._held_out.items():
            waves = list(_pieces(voice))
            if not waves:
                continue
            free = self._measured(waves, bypass=True)
            found = free if phase is Phase.UNQUANTISED else self._measured(waves, bypass=False)
            yield name, dict(zip(_NAMES, found, strict=True)) | {"unquantised": free[0]}

    def _measured(self, waves: Sequence[torch.Tensor], *, bypass: bool) -> list[float]:
        """Spectral distance, envelopes and loudness, means over `waves`; semantic entries that occur."""
        step, codec = self._step, self._step.codec
        decoder = codec.decoder
        total = torch.zeros(3, device=step.device)
        codes: list[torch.Tensor] = []
        for wave in waves:
            z = codec.encoder(wave)
            quantised = decoder.quantizer.bypass(z) if bypass else decoder.quantizer(z)
            codes.append(quantised.codes[:, :1])
            made = decoder.vocode(decoder.latents(quantised.value))
            total += torch.stack([measure(made, wave) for measure in (step.distance, step.envelopes, step.loudness)])
        return [*(float(x) for x in total / len(waves)), float(torch.cat(codes).unique().numel())]


def _pieces(voice: Voice) -> Iterable[torch.Tensor]:
    """Pieces [1, 1, 1920 · _FRAMES] of a voice in their order."""
    size = _FRAMES * FRAME
    for start in range(0, min(voice.wave.numel() - size + 1, _MOST * size), size):
        yield voice.wave[start : start + size].float()[None, None] / 32768
