"""The codec's encoder: waveform -> one vector a frame. Only training needs it, so it is neither small at run time
nor causal.

It reads log-mel spectra rather than samples: the codec's loss sees magnitudes only, and convolutions at 100 frames a
second cost a hundredth of those at 24 kHz.
"""

from torch import Tensor, nn

from training.tts.config import CodecShape
from training.tts.layers import ConvNeXtBlock
from training.tts.spectra import Mel, mel_bank

_BANDS = 128
_HOP = 240  # 100 spectra a second; three halvings make 12.5
_FLOOR = 1e-4  # of a mel magnitude, before its logarithm
_CENTRE, _SPREAD = -1.2, 1.0  # of log10 mel magnitudes of speech at the level of `speech.LEVEL`


class Encoder(nn.Module):
    """Waveform [B, 1, 1920 · T] -> [B, codebook_dim, T]."""

    def __init__(self, shape: CodecShape) -> None:
        super().__init__()
        width = shape.encoder_width
        self.spectra = Mel(mel_bank(1024, _BANDS), _HOP, "constant")
        self.stem = nn.Conv1d(_BANDS, width, 5, padding=2)
        stages: list[nn.Module] = []
        for blocks in shape.encoder_blocks[:-1]:
            stages += [ConvNeXtBlock(width, 3, causal=False) for _ in range(blocks)]
            stages.append(nn.Conv1d(width, width, 2, stride=2))
        stages += [ConvNeXtBlock(width, 3, causal=False) for _ in range(shape.encoder_blocks[-1])]
        self.stages = nn.ModuleList(stages)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, shape.codebook_dim)

    def forward(self, wave: Tensor) -> Tensor:
        x = self.stem(((self.spectra(wave[:, 0]) + _FLOOR).log10() - _CENTRE) / _SPREAD)
        for stage in self.stages:
            x = stage(x)
        return self.head(self.norm(x.transpose(1, 2))).transpose(1, 2)
