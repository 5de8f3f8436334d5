"""How far two waveforms are from each other to the encoder of our own hearing model: what words hang on and spectra
weigh little, such as a plosive's burst.

It is that model's judgement, so its word errors on what such a codec says flatter the codec; other recognisers' do not.
"""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn import functional as F

from audio.mel_filters import HOP, N_FFT, mel_filters
from training.asr.checkpoint import WEIGHTS
from training.asr.config import Config, Regularisation
from training.asr.encoder import AudioTower, token_count
from training.tts.config import RATE

_HEARS = 16_000  # samples a second of what the hearing model is given
_TOWER = "thinker.audio_tower."
_FLOOR = 1e-3  # of power that is compared: lower, silence has most of the gradient (the median of speech is 1e-4)


class Ear(nn.Module):
    """The encoder with the weights of a checkpoint folder, not trained: waveforms [B, 1, S] -> their distance []."""

    filters: Tensor
    window: Tensor

    def __init__(self, config: Config, folder: Path) -> None:
        super().__init__()
        still = replace(config.regularisation, dropout=0.0, drop_path=0.0)
        self.tower = tower(config, still, folder)
        # The same 25 ms windows and 10 ms hops at 24 kHz have the same 40 Hz a bin.
        self.size, self.hop = N_FFT * RATE // _HEARS, HOP * RATE // _HEARS
        self.register_buffer("filters", torch.from_numpy(mel_filters(config.shape.mel_bins)), persistent=False)
        self.register_buffer("window", torch.hann_window(self.size), persistent=False)

    def log_mel(self, wave: Tensor) -> Tensor:
        """[B, S] at 24 kHz -> [B, bins, S // 240], as the hearing model sees the same sound at 16 kHz and some hiss."""
        z = torch.stft(wave, self.size, self.hop, window=self.window, center=True, return_complex=True)
        power = (z.real.square() + z.imag.square())[:, : self.filters.shape[1], :-1] * (_HEARS / RATE) ** 2
        return ((self.filters @ power + _FLOOR).log10() + 4) / 4

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean L1 distance of normalised states of an inner layer and of the last, as if each slice began a chunk."""
        with torch.autocast(x.device.type, enabled=False):
            mel = self.log_mel(torch.cat([x, y])[:, 0].float())
        frames = mel.shape[2]
        mel = F.pad(mel, (0, -frames % self.tower.chunk))
        length = torch.full((len(mel),), frames, device=mel.device)
        last, inner, _ = self.tower(mel, length)
        count = int(token_count(torch.tensor(frames), self.tower.chunk))
        total = torch.zeros((), device=x.device)
        for states in (inner, last):
            a, b = states[:, :count].float().chunk(2)
            total = total + F.l1_loss(a, b) / b.detach().abs().mean()
        return total / 2


def tower(config: Config, regularisation: Regularisation, folder: Path) -> AudioTower:
    """The encoder of a checkpoint folder (of `python -m training.asr shipped`), its weights fixed.

    Raises:
        ValueError: the weights are not of the configured shape.
    """
    made = AudioTower(config.shape, regularisation).eval().requires_grad_(False)
    with safe_open(folder / WEIGHTS, "pt") as file:  # type: ignore[no-untyped-call]
        held = {k.removeprefix(_TOWER): file.get_tensor(k).float() for k in file.keys() if k.startswith(_TOWER)}
    try:
        made.load_state_dict(held)
    except RuntimeError as error:
        raise ValueError(f"{folder}: not of the shape of {config.name}: {error}") from error
    return made


def load_ear(folder: Path | None) -> Ear | None:
    """The ear of the bundled hearing model's recipe, with the weights of `folder`; None without."""
    return None if folder is None else Ear(Config(), folder)
