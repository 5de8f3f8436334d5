"""Qwen3-ASR at pocket size: the audio tower, the text model and a CTC head, batched for training and for greedy
decoding.

Names in `state_dict` are the official checkpoint's, and `ctc.weight` and `ctc.bias`. The CTC head reads the encoder
states after ln_post; its last class (index vocab) is the blank.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.checkpoint import RMS_EPSILON, ROPE_THETA, load_checkpoint
from training.asr.config import Regularisation, Shape
from training.asr.encoder import AudioTower, Heard
from training.qwen3 import Layer, Past, RMSNorm, rotary


class Outputs(NamedTuple):
    """What one forward pass of training gives."""

    logits: Tensor  # [B, S - 1, vocab]: predicts targets[:, 1:]
    ctc: Tensor  # [B, T, vocab + 1], unnormalised


def shipping(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give what ships of a run's tensors. The head that only training has, and what else a state holds, stay behind."""
    return {name: value for name, value in weights.items() if name.startswith(("thinker.", "ctc."))}


class TextModel(nn.Module):
    """A Qwen3 decoder whose output head is its embedding."""

    compiled: Callable[..., Tensor] | None = (
        None  # This calls one layer as a compiled function, where training made one.
    )

    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        s = shape
        self.head_dim = s.head_dim
        self.embed_tokens = nn.Embedding(s.vocab, s.hidden)
        self.layers = nn.ModuleList(
            Layer(s.hidden, s.decoder_ffn, s.heads, s.kv_heads, s.head_dim, RMS_EPSILON, *(2 * [reg.reading_dropout]))
            for _ in range(s.decoder_layers)
        )
        self.norm = RMSNorm(s.hidden, RMS_EPSILON)

    def forward(
        self, x: Tensor, position: Tensor, mask: Tensor | None = None, past: Sequence[Past] | None = None
    ) -> Tensor:
        """Rows x [B, T, hidden] at `position` [B, T] -> normed states [B, T, hidden]. The attention is causal unless
        `mask` (bool [B, 1, T, all]) is given; `past` holds each layer's keys and values so far."""
        cos, sin = rotary(position[:, None], self.head_dim, ROPE_THETA)
        turn = cos.to(x.dtype), sin.to(x.dtype)
        for i, layer in enumerate(self.layers):
            if self.compiled is not None and self.training:
                x = self.compiled(layer, x, turn)
            else:
                x = layer(x, turn, mask, past[i] if past is not None else None)
        return self.norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """Map states [..., hidden] to scores [..., vocab], by the embedding."""
        return F.linear(x, self.embed_tokens.weight)


class Thinker(nn.Module):
    def __init__(self, shape: Shape, reg: Regularisation) -> None:
        super().__init__()
        self.audio_tower, self.model = AudioTower(shape, reg), TextModel(shape, reg)


class PocketASR(nn.Module):
    """The model must begin from given weights: PyTorch's own initial values leave the convolutions some 60 times weaker
    than the positions that are added to them (notes/2026-11-training.md)."""

    def __init__(self, shape: Shape, reg: Regularisation | None = None) -> None:
        super().__init__()
        self.shape, self._reg = shape, reg or Regularisation()
        self.thinker = Thinker(shape, self._reg)
        self.ctc = nn.Linear(shape.d_model, shape.vocab + 1)

    def add_taught(self, width: int, layers: int) -> None:
        """Add a head that says a teacher's final states from those of our first `layers` layers. It begins as our last
        norm and the identity, because these layers begin as the teacher's. The layers above them are free to read."""
        tower, line = self.thinker.audio_tower, nn.Linear(self.shape.d_model, width)
        tower.followed = min(layers, self.shape.encoder_layers)
        for layer in tower.layers[tower.followed :]:
            layer.drop.p = layer.self_attn.dropout = self._reg.reading_dropout
        nn.init.eye_(line.weight)
        nn.init.zeros_(line.bias)
        self.taught = nn.Sequential(deepcopy(tower.ln_post), line)

    def hear(self, mel: Tensor, frames: Tensor) -> Heard:
        """Map mel [B, bins, k chunks] of which `frames` [B] count to states."""
        return self.thinker.audio_tower(mel, frames)

    def read(self, heard: Heard, prefix: Tensor, prefix_count: Tensor, targets: Tensor) -> Outputs:
        """Read what was heard. prefix: ids [B, P], of which prefix_count [B] are real; targets: [B, S], suffix,
        language, text, end and padding. Every shape that comes out depends on shapes only, so the pass can be
        captured."""
        states = heard.states
        x, position, end = self._rows(states, heard.count, prefix, prefix_count, targets)
        text = self.thinker.model
        y = text(x, position)
        take = end + torch.arange(targets.shape[1] - 1, device=states.device)[None]
        y = y.gather(1, take[..., None].expand(-1, -1, y.shape[-1]))
        return Outputs(text.logits(y), self.ctc(states))

    def _rows(
        self, states: Tensor, count: Tensor, prefix: Tensor, prefix_count: Tensor, after: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Give what the decoder reads [B, N, hidden], which is the real prefix, the real audio, `after` and padding;
        its positions [B, N]; and where `after` begins [B, 1]. Causal attention keeps the padding out of what counts."""
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
        """Decode greedily -> (ids [B, n], CTC argmax [B, T], count [B]).

        `suffix` [S] is everything after the audio, with the language if it is to be forced. At most `limit` tokens are
        written.
        """
        states, _, _, _, count = self.hear(mel, frames)
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


def load_model(folder: Path, reg: Regularisation | None = None) -> PocketASR:
    """Load the model of a checkpoint folder."""
    shape, weights = load_checkpoint(folder)
    model = PocketASR(shape, reg)
    model.load_state_dict(weights)
    return model
