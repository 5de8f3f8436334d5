"""Kokoro-82M (StyleTTS 2 with an iSTFT decoder) on batches of equal lengths.

Contract: `plan` takes tokens int64 [B, T] (pads at both ends) and styles float32 [B, 256] (first half: sound, second
half: prosody); `say` takes rows whose durations all sum to F frames, and gives float32 [B, 600 F] at 24 kHz.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from training.speech.language import STYLE, WIDTH, Albert, Prosody, TextEncoder
from training.speech.sound import Decoder


@dataclass(frozen=True)
class Planned:
    """Utterances before they are sound: prosody [B, T, 640], phonemes [B, T, 512], durations int64 [B, T] in frames
    of 25 ms."""

    prosody: Tensor
    phonemes: Tensor
    durations: Tensor


class Kokoro(nn.Module):
    """The whole network. Weights: training.speech.weights."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = Albert()
        self.bert_encoder = nn.Linear(768, WIDTH)
        self.predictor = Prosody()
        self.text_encoder = TextEncoder()
        self.decoder = Decoder()

    def plan(self, tokens: Tensor, styles: Tensor, speed: Tensor) -> Planned:
        """speed: float32 [B], 1 as the voice speaks, 2 twice as fast."""
        known = self.bert_encoder(self.bert(tokens))
        prosody, frames = self.predictor.durations(known, styles[:, STYLE:])
        durations = (frames / speed[:, None]).round().clamp(min=1).long()
        return Planned(prosody, self.text_encoder(tokens), durations)

    def say(self, planned: Planned, styles: Tensor, frames: int, noise: float = 1.0) -> Tensor:
        """frames: the sum of every row's durations. noise: of the source, 1 as the network learnt it, 0 for none (as
        the ONNX graph has it)."""
        count, length = planned.durations.shape
        rows = torch.arange(count * length, device=styles.device)
        which = torch.repeat_interleave(rows, planned.durations.flatten(), output_size=count * frames)
        prosody = planned.prosody.flatten(0, 1)[which].view(count, frames, -1)
        phonemes = planned.phonemes.flatten(0, 1)[which].view(count, frames, -1)
        pitch, energy = self.predictor.curves(prosody, styles[:, STYLE:])
        dtype = self.decoder.asr_res.weight.dtype
        sound = styles[:, :STYLE].to(dtype)
        return self.decoder(phonemes.transpose(1, 2).to(dtype), pitch, energy, sound, noise)
