"""Other readers out of the readers there are: variation of a log-mel that is neither noise nor masking.

Shapes out depend on shapes in only and nothing is read back from the device, so both can be part of a captured step.
"""

import torch
from torch import Tensor

_KNOT = 48  # frames between the points at which the rhythm may change


def mix_style(mel: Tensor, frames: Tensor, share: Tensor) -> Tensor:
    """mel [B, M, T] with frames [B] that count. About `share` [] of the rows take mean and spread of every band in
    part from another row: how a voice and its microphone colour speech, not what is said (MixStyle, Zhou et al.
    2021)."""
    rows, _, width = mel.shape
    device = mel.device
    valid = (torch.arange(width, device=device)[None] < frames[:, None]).to(mel.dtype)[:, None]
    count = valid.sum(-1, keepdim=True).clamp(min=1)
    mean = (mel * valid).sum(-1, keepdim=True) / count
    spread = (((mel - mean).square() * valid).sum(-1, keepdim=True) / count + 1e-4).sqrt()
    other = (torch.arange(rows, device=device) + torch.randint(1, max(rows, 2), (1,), device=device)) % rows
    part = torch.rand(rows, 1, 1, device=device) * 0.6
    part = torch.where(torch.rand(rows, 1, 1, device=device) < share, part, 0.0)
    # The narrow spread of a silent band must not blow up what another row has there.
    ratio = (spread[other] / spread).clamp(0.5, 2.0)
    return (mel - mean) * (1 + part * (ratio - 1)) + mean + part * (mean[other] - mean)


def warp_time(mel: Tensor, frames: Tensor, strength: Tensor, *, views: int = 1, most: float = 0.25) -> Tensor:
    """Half of the rows are read faster here and slower there, up to `most` of the pace; every row keeps its first and
    last frame, and frames past `frames` [B] are the last one's. The rows are `views` times the same ones: all views of
    a row change their pace alike, for they are compared frame by frame."""
    rows, bins, width = mel.shape
    device = mel.device
    knots = width // _KNOT + 2
    on = torch.rand(rows // views, 1, device=device) < 0.5
    change = (torch.rand(rows // views, knots, device=device) * 2 - 1) * most
    pace = torch.where(on, 1 + change * strength, 1.0).repeat(views, 1)
    pace = pace.repeat_interleave(_KNOT, 1)[:, :width]
    time = torch.arange(width, device=device)[None]
    pace = torch.where(time < frames[:, None], pace, 0.0)
    at = pace.cumsum(1) - pace
    last = (frames[:, None] - 1).clamp(min=0)
    at = torch.minimum(at * (last / at.gather(1, last).clamp(min=1)), last).clamp(max=width - 1.001)
    low = at.floor().long()
    part = (at - low)[:, None]

    def frames_at(index: Tensor) -> Tensor:
        return mel.gather(2, index[:, None].expand(-1, bins, -1))

    return frames_at(low) * (1 - part) + frames_at(low + 1) * part
