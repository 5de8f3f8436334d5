"""The ear tells how far two waveforms are from each other to the encoder of our own hearing model. Words hang on things
that spectra weigh little, such as a plosive's burst.

It is that model's judgement, so its word errors on what such a codec says flatter the codec; other recognisers' do not.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.asr.checkpoint import load_checkpoint
from training.asr.config import Regularisation
from training.asr.encoder import AudioTower, token_count
from training.asr.spectrogram import LogMel
from training.tts.config import RATE

_TOWER = "thinker.audio_tower."
# The power from which on sounds are compared. With a lower floor silence has most of the gradient; the median of speech
# is 1e-4.
_FLOOR = 1e-3


class Ear(nn.Module):
    """The encoder with the weights of a folder of `python -m training.asr shipped`, which is not trained: waveforms [B,
    1, S] -> their distance [].

    Raises:
        ValueError: the weights are not of the folder's shape.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        shape, weights = load_checkpoint(folder)
        self.tower = AudioTower(shape, Regularisation(dropout=0.0)).eval().requires_grad_(False)
        try:
            self.tower.load_state_dict({k.removeprefix(_TOWER): v for k, v in weights.items() if k.startswith(_TOWER)})
        except RuntimeError as error:
            raise ValueError(f"{folder}: weights that are not of the shape in config.json: {error}") from error
        self.mel = LogMel(shape.mel_bins, rate=RATE)

    def log_mel(self, wave: Tensor) -> Tensor:
        """Map [B, S] at 24 kHz to [B, bins, S // 240], as the hearing model sees the same sound at 16 kHz with some
        hiss."""
        return ((self.mel.power(wave) + _FLOOR).log10() + 4) / 4

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Give the mean L1 distance of the normalised states of an inner layer and of the last, as if each slice began
        a chunk."""
        with torch.autocast(x.device.type, enabled=False):
            mel = self.log_mel(torch.cat([x, y])[:, 0].float())
        frames = mel.shape[2]
        mel = F.pad(mel, (0, -frames % self.tower.chunk))
        length = torch.full((len(mel),), frames, device=mel.device)
        last, inner, *_ = self.tower(mel, length)
        count = int(token_count(torch.tensor(frames), self.tower.chunk))
        total = torch.zeros((), device=x.device)
        for states in (inner, last):
            a, b = states[:, :count].float().chunk(2)
            total = total + F.l1_loss(a, b) / b.detach().abs().mean()
        return total / 2
