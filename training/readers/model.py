"""The reader model: bands of speech from timed phones and a style, by flow matching; and phones' times from phones and
a style.

A slot is 20 ms, two frames of bands. Flow matching (Lipman et al. 2023): the network learns the direction from noise
to speech at any point between them, and `paint` follows it.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.encoder import narrow
from training.readers.bands import BANDS
from training.readers.config import Shape

SLOT = 2 * BANDS  # numbers of a slot
LONGEST_GAP = 96  # slots between two phones that the timing network tells apart
_NEAR = 5  # slots that a layer's convolution sees
NEAR = 32  # slots that a position counts to the phones before and behind it


def _rotary(width: int, steps: int, device: torch.device) -> Tensor:
    """Cosines and sines [2, steps, width / 2]."""
    rate = 10000 ** (-torch.arange(0, width, 2, device=device) / width)
    angle = torch.arange(steps, device=device)[:, None] * rate
    return torch.stack([angle.cos(), angle.sin()])


def _turned(x: Tensor, angles: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    c, s = angles.to(x.dtype)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class Layer(nn.Module):
    """Attention, a short convolution and a feed-forward net, their sizes moved by what the row is (adaLN)."""

    def __init__(self, width: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.near = nn.Parameter(torch.randn(_NEAR, width) / _NEAR)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)
        self.shift = nn.Parameter(torch.zeros(6, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))

    def forward(self, x: Tensor, row: Tensor, angles: Tensor, mask: Tensor, valid: Tensor) -> Tensor:
        """x [B, T, d], row [B, 6, d], mask [B, 1, T, T] added to the scores, valid [B, T, 1] -> [B, T, d]."""
        b, t, d = x.shape
        scale, move, gate, scale2, move2, gate2 = (row + self.shift)[:, :, None].unbind(1)
        y = self.norms[0](x) * (1 + scale) + move
        q, k, v = (h.view(b, t, self.heads, -1).transpose(1, 2) for h in self.qkv(y).chunk(3, -1))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(_turned(q, angles), _turned(k, angles), v, attn_mask=mask, dropout_p=dropout)
        x = x + (1 + gate) * F.dropout(self.out(y.transpose(1, 2).reshape(b, t, d)), self.dropout, self.training)
        y = self.norms[1](x) * (1 + scale2) + move2
        around = F.pad(y * valid, (0, 0, _NEAR // 2, _NEAR // 2))
        y = y + sum(around[:, i : i + t] * self.near[i] for i in range(_NEAR))
        return x + (1 + gate2) * F.dropout(self.down(F.gelu(self.up(y))), self.dropout, self.training)


class Stack(nn.Module):
    """Layers, and what they are told about the row."""

    compiled: Callable[..., Tensor] | None = None

    def __init__(self, width: int, layers: int, heads: int, ffn: int, told: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.tell = nn.Sequential(nn.Linear(told, width), nn.SiLU(), nn.Linear(width, 6 * width))
        self.layers = nn.ModuleList(Layer(width, heads, ffn, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.tell[2].weight)
        nn.init.zeros_(self.tell[2].bias)

    def forward(self, x: Tensor, told: Tensor, mask: Tensor) -> Tensor:
        """x [B, T, d], told [B, k], mask bool [B, T]: what counts."""
        row = self.tell(told).unflatten(-1, (6, -1)).to(x.dtype)
        angles = _rotary(x.shape[-1] // self.heads, x.shape[1], x.device)
        valid = mask[..., None].to(x.dtype)
        added = torch.zeros(mask.shape, device=x.device).masked_fill(~mask, -1e4)[:, None, None]
        added = narrow(added).expand(-1, -1, x.shape[1], -1)
        for layer in self.layers:
            inputs = (x, row, angles, added, valid)
            x = layer(*inputs) if self.compiled is None else self.compiled(layer, *inputs)
        return self.norm(x)


class Timer(nn.Module):
    """How long it is from each phone to the next, of words read in a style."""

    def __init__(self, shape: Shape, kinds: int) -> None:
        """kinds: phones, each as it begins a word and as it does not."""
        super().__init__()
        w = shape.timing_width
        self.phone = nn.Embedding(kinds, w)
        self.body = Stack(w, shape.timing_layers, 4, 3 * w, shape.style, shape.timing_dropout)
        self.gap = nn.Linear(w, LONGEST_GAP)
        nn.init.normal_(self.phone.weight, std=0.5)

    def forward(self, phones: Tensor, style: Tensor, mask: Tensor) -> Tensor:
        """phones int64 [B, n] (the first is none), mask bool [B, n] -> logits [B, n, 96] of the slots to the next
        one."""
        return self.gap(self.body(self.phone(phones), style, mask))


class Reader(nn.Module):
    """mean, spread [192]: of the slots of all recordings; what `forward` sees is normalised by them."""

    mean: Tensor
    spread: Tensor

    def __init__(self, shape: Shape, phones: int) -> None:
        super().__init__()
        d, kinds = shape.width, 2 * (phones + 1)
        self.silent = phones  # the id of no phone, before the first and after the last
        self.register_buffer("mean", torch.zeros(SLOT))
        self.register_buffer("spread", torch.ones(SLOT))
        self.hear = nn.Sequential(
            nn.Conv1d(SLOT, 256, 5, padding=2), nn.GELU(), nn.Conv1d(256, 256, 5, padding=2), nn.GELU()
        )
        self.pool = nn.Linear(512, shape.style)
        self.here, self.ahead = nn.Embedding(kinds, d), nn.Embedding(kinds, d)
        self.since, self.until = nn.Embedding(NEAR, d), nn.Embedding(NEAR, d)
        self.unsaid = nn.Parameter(torch.zeros(d))
        self.enter, self.leave = nn.Linear(SLOT, d), nn.Linear(d, SLOT)
        self.body = Stack(d, shape.layers, shape.heads, shape.ffn, 64 + shape.style, shape.dropout)
        self.timer = Timer(shape, kinds)
        for table in (self.here, self.ahead, self.since, self.until):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.zeros_(self.leave.weight)

    def style(self, slots: Tensor) -> Tensor:
        """Normalised slots [B, n, 192] -> [B, style], each of length sqrt(style)."""
        heard = self.hear(slots.transpose(1, 2)).float()
        pooled = self.pool(torch.cat([heard.mean(-1), heard.std(-1)], -1)).float()
        return F.normalize(pooled, dim=-1) * pooled.shape[-1] ** 0.5

    def spoken(self, said: Tensor) -> Tensor:
        """What is said: int64 [B, T, 4] (phone here and its word start, the same ahead, slots since, slots until) ->
        [B, T, d]."""
        here, ahead, since, until = said.unbind(-1)
        return self.here(here) + self.ahead(ahead) + self.since(since) + self.until(until)

    def forward(self, x: Tensor, time: Tensor, spoken: Tensor, style: Tensor, mask: Tensor) -> Tensor:
        """Direction from noise to speech at x [B, T, 192], time [B] in 0..1."""
        rate = torch.exp(torch.arange(32, device=x.device) * (math.log(1000) / 31))
        angle = time[:, None] * rate
        told = torch.cat([angle.sin(), angle.cos(), style], -1)
        return self.leave(self.body(self.enter(x) + spoken, told, mask))

    @torch.no_grad()
    def paint(self, said: Tensor, style: Tensor, mask: Tensor, steps: int = 12, guidance: float = 0.5) -> Tensor:
        """Bands [B, 2 T, 96], log10 power. guidance: how far past the phones' direction, away from that without."""
        spoken = self.spoken(said)
        x = torch.randn(*said.shape[:2], SLOT, device=said.device)
        unsaid = self.unsaid.expand_as(spoken)
        # Short steps at first, where the direction changes most.
        times = [1 - math.cos(math.pi / 2 * i / steps) for i in range(steps + 1)]
        for now, then in zip(times, times[1:], strict=False):
            time = torch.full((len(x),), now, device=x.device)
            way = self(x, time, spoken, style, mask).float()
            if guidance:
                way = way + guidance * (way - self(x, time, unsaid, style, mask).float())
            x = x + (then - now) * way
        return (x * self.spread + self.mean).unflatten(-1, (2, BANDS)).flatten(1, 2)


def compile_layers(model: Reader) -> None:
    """Fuse the layers' elementwise work."""

    def run(layer: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        return layer(*inputs)

    torch._dynamo.config.suppress_errors = True  # pyright: ignore
    torch._dynamo.config.recompile_limit = 64  # pyright: ignore  (a shape each to learn and to read)
    model.body.compiled = torch.compile(run, dynamic=False)
