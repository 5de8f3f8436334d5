"""Qwen3-ASR at pocket size: audio tower, text model and a CTC head, batched for training and for greedy decoding.

`state_dict` names are the official checkpoint's plus `ctc.weight` and `ctc.bias`; the CTC head reads the encoder states
after ln_post, its last class (index vocab) is the blank.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.asr.encoder import AudioTower
from training.qwen3 import Layer, Past, RMSNorm, rotary

ROPE_THETA = 1e6
RMS_EPSILON = 1e-6


class Outputs(NamedTuple):
    """One training forward pass."""

    logits: Tensor  # [B, S - 1, vocab]: predicts targets[:, 1:]
    ctc: Tensor  # [B, T, vocab + 1], unnormalised
    middle_ctc: Tensor  # the same from an inner encoder layer
    states: Tensor  # [B, T, d] of the encoder
    count: Tensor  # [B] valid encoder tokens


def shipping(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without the head that only training has."""
    return {name: value for name, value in weights.items() if not name.startswith("taught.")}


class TextModel(nn.Module):
    """A Qwen3 decoder with tied embeddings."""

    compiled: Callable[..., Tensor] | None = None  # one layer, compiled for training

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        s = shape
        self.head_dim = s.head_dim
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(
            Layer(s.hidden, s.decoder_ffn, s.heads, s.kv_heads, s.head_dim, RMS_EPSILON, reg.dropout, reg.dropout)
            for _ in range(s.decoder_layers)
        )
        self.norm = RMSNorm(s.hidden, RMS_EPSILON)

    def forward(
        self, x: Tensor, position: Tensor, mask: Tensor | None = None, past: Sequence[Past] | None = None
    ) -> Tensor:
        """Rows x [B, T, hidden] at `position` [B, T] -> normed states [B, T, hidden]. Causal unless `mask` (bool
        [B, 1, T, all]) is given; `past` holds a layer's keys and values so far."""
        cos, sin = rotary(position[:, None], self.head_dim, ROPE_THETA)
        turn = cos.to(x.dtype), sin.to(x.dtype)
        for i, layer in enumerate(self.layers):
            if self.compiled is not None and self.training:
                x = self.compiled(layer, x, turn)
            else:
                x = layer(x, turn, mask, past[i] if past is not None else None)
        return self.norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """Tied output head: [..., hidden] -> [..., vocab]."""
        return F.linear(x, self.embed_tokens.weight)


class Thinker(nn.Module):
    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        self.audio_tower, self.model = AudioTower(shape, reg), TextModel(shape, reg)


class PocketASR(nn.Module):
    """Begins from weights: PyTorch's own init leaves the convolutions some 60 times weaker than the positions that are
    added to them (notes/2026-11-training.md)."""

    def __init__(self, shape: Shape, reg: Regularisation | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.thinker = Thinker(shape, reg or Regularisation())
        self.ctc = nn.Linear(shape.d_model, shape.vocab + 1)

    def add_taught(self, width: int) -> None:
        """A head that says a teacher's states. It begins with zeros: at first it only learns, and turns nothing."""
        self.taught = nn.Linear(self.shape.d_model, width)
        nn.init.zeros_(self.taught.weight)
        nn.init.zeros_(self.taught.bias)

    def forward(self, mel: Tensor, frames: Tensor, prefix: Tensor, prefix_count: Tensor, targets: Tensor) -> Outputs:
        """mel [B, 128, k chunks], frames [B]; prefix ids [B, P] of which prefix_count [B] are real; targets [B, S]:
        suffix, language, text, end, padding. Every shape out depends on shapes in only, so the pass can be captured."""
        states, middle, count = self.thinker.audio_tower(mel, frames)
        x, position, end = self._rows(states, count, prefix, prefix_count, targets)
        text = self.thinker.model
        y = text(x, position)
        take = end + torch.arange(targets.shape[1] - 1, device=mel.device)[None]
        y = y.gather(1, take[..., None].expand(-1, -1, y.shape[-1]))
        return Outputs(text.logits(y), self.ctc(states), self.ctc(middle), states, count)

    def _rows(
        self, states: Tensor, count: Tensor, prefix: Tensor, prefix_count: Tensor, after: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What the decoder reads [B, N, hidden]: real prefix | real audio | `after` | padding; positions [B, N]; where
        `after` begins [B, 1]. Causal attention keeps the padding out of what counts."""
        embed, audio = self.thinker.model.embed_tokens, self.thinker.audio_tower.project(states)
        p, a, s = prefix.shape[1], audio.shape[1], after.shape[1]
        j = torch.arange(p + a + s, device=audio.device)[None]
        start = prefix_count[:, None]
        end = start + count[:, None]
        behind = (j - end + p + a).clamp(max=p + a + s - 1)
        source = torch.where(j < start, j, torch.where(j < end, j - start + p, behind))
        rows = torch.cat([embed(prefix), audio, embed(after)], 1)
        return rows.gather(1, source[..., None].expand(-1, -1, rows.shape[-1])), j.expand(len(rows), -1), end

    @torch.no_grad()
    def transcribe(
        self, mel: Tensor, frames: Tensor, prefix: Tensor, prefix_count: Tensor, suffix: Tensor, end: int, limit: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Greedy decoding -> (ids [B, n], CTC argmax [B, T], count [B]).

        `suffix` [S] is everything after the audio (with the language, if it is to be forced); at most `limit`
        tokens."""
        states, _, count = self.thinker.audio_tower(mel, frames)
        text, past = self.thinker.model, [Past() for _ in self.thinker.model.layers]
        x, position, end_of_audio = self._rows(states, count, prefix, prefix_count, suffix.expand(len(mel), -1))
        used = end_of_audio + suffix.numel()
        y = text(x, position, None, past).take_along_dim(used[..., None] - 1, 1)[:, 0]
        ok = position < used
        out: list[Tensor] = []
        done = ok.new_zeros(len(mel))
        for i in range(limit):
            token = torch.where(done, end, text.logits(y).argmax(-1))
            out.append(token)
            done |= token == end
            if i % 8 == 7 and bool(done.all()):
                break
            ok = F.pad(ok, (0, 1), value=True)
            y = text(text.embed_tokens(token)[:, None], used + i, ok[:, None, None, :], past)[:, 0]
        return torch.stack(out, 1), self.ctc(states).argmax(-1), count
