"""The speaker encoder as a module for export. It turns the mels of a recording into a voice's embedding, for cloning.

It is an ECAPA-TDNN (qwen-tts 0.1.1, modeling_qwen3_tts.py:96-397). Its graph takes whole clips, in float32.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from export.checkpoint import Checkpoint
from export.trace.weights import Read, constant, reader
from export.tts.cloning_dims import SpeakerEncoderDims


class Tdnn(nn.Module):
    """A convolution that keeps the length, with reflection at both ends, then ReLU."""

    def __init__(self, read: Read, name: str, dilation: int = 1) -> None:
        super().__init__()
        self.weight, self.bias = constant(read(f"{name}.conv.weight")), constant(read(f"{name}.conv.bias"))
        self.dilation = dilation
        total = dilation * (self.weight.shape[2] - 1)
        self.padding = (total // 2, total - total // 2)

    def forward(self, x: Tensor) -> Tensor:
        if any(self.padding):
            x = functional.pad(x, self.padding, "reflect")
        return functional.relu(functional.conv1d(x, self.weight, self.bias, dilation=self.dilation))


class SqueezeExcitation(nn.Module):
    """Weighs the channels by a small net on the clip's mean."""

    def __init__(self, read: Read, name: str) -> None:
        super().__init__()
        self.first, self.second = (Point(read, f"{name}.{part}") for part in ("conv1", "conv2"))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.second(functional.relu(self.first(x.mean(2, keepdim=True)))))


class Point(nn.Module):
    """A convolution with a kernel of 1."""

    def __init__(self, read: Read, name: str) -> None:
        super().__init__()
        self.weight, self.bias = constant(read(f"{name}.weight")), constant(read(f"{name}.bias"))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv1d(x, self.weight, self.bias)


class Res2(nn.Module):
    """A Res2Net block: TDNN, a chain of convolutions over groups of channels, TDNN, and squeeze and excitation, added
    to the input."""

    def __init__(self, read: Read, name: str, scale: int, dilation: int) -> None:
        super().__init__()
        self.enter, self.leave = Tdnn(read, f"{name}.tdnn1"), Tdnn(read, f"{name}.tdnn2")
        self.chain = nn.ModuleList(
            Tdnn(read, f"{name}.res2net_block.blocks.{place}", dilation) for place in range(scale - 1)
        )
        self.excite = SqueezeExcitation(read, f"{name}.se_block")
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        first, *others = self.enter(x).chunk(self.scale, 1)
        parts = [first]
        for place, (other, step) in enumerate(zip(others, self.chain, strict=True)):
            parts.append(step(other if place == 0 else other + parts[-1]))
        return x + self.excite(self.leave(torch.cat(parts, 1)))


class SpeakerEncoder(nn.Module):
    """mels [B, T, bins] → embedding [B, talker width]. The whole clip is pooled, so the clips of a batch must be
    equally long."""

    def __init__(self, read: Read, scales: Sequence[int], dilations: Sequence[int]) -> None:
        super().__init__()
        self.first = Tdnn(read, "speaker_encoder.blocks.0", dilations[0])
        self.blocks = nn.ModuleList(
            Res2(read, f"speaker_encoder.blocks.{place}", scale, dilations[place])
            for place, scale in enumerate(scales, 1)
        )
        self.gather = Tdnn(read, "speaker_encoder.mfa", dilations[-1])
        self.attend = Tdnn(read, "speaker_encoder.asp.tdnn")
        self.score, self.out = Point(read, "speaker_encoder.asp.conv"), Point(read, "speaker_encoder.fc")

    def forward(self, mels: Tensor) -> Tensor:
        x = self.first(mels.transpose(1, 2))
        outputs: list[Tensor] = []
        for block in self.blocks:
            x = block(x)
            outputs.append(x)
        x = self.gather(torch.cat(outputs, 1))
        mean = x.mean(2, keepdim=True)
        deviation = ((x - mean) ** 2).mean(2, keepdim=True).clamp(min=1e-12).sqrt()
        joined = torch.cat((x, mean.expand_as(x), deviation.expand_as(x)), 1)
        shares = torch.softmax(self.score(torch.tanh(self.attend(joined))), 2)
        mean = (shares * x).sum(2, keepdim=True)
        deviation = (shares * (x - mean) ** 2).sum(2, keepdim=True).clamp(min=1e-12).sqrt()
        return self.out(torch.cat((mean, deviation), 1)).squeeze(2)


def build_speaker_encoder(model: Checkpoint, dims: SpeakerEncoderDims) -> SpeakerEncoder:
    """The speaker encoder with the checkpoint's weights."""
    return SpeakerEncoder(reader(model), dims.scales, dims.dilations).eval()
