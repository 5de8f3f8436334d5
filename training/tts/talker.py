"""The talker (codebook 0, one step a frame) and the predictor (the other codebooks), with the official parameter names
under `talker.`, and the speaker encoder, whose names are no part of them.

The structure's source is Qwen3TTSTalkerForConditionalGeneration. Positions are plain, because all three mRoPE axes are
equal there.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.qwen3 import Layer, Past, Probe, RMSNorm, rotary
from training.tts.config import CodecShape, SpeakerShape, TalkerShape
from training.tts.speaker_encoder import LogMel, SpeakerEncoder, narrowed

ENCODER = "speaker_encoder."  # The names of the speaker encoder's parameters begin so.


class Stack(nn.Module):
    """Layers and a norm: [B, T, width] -> [B, T, width]."""

    def __init__(
        self, shape: TalkerShape, width: int, inner: int, heads: int, kv_heads: int, layers: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.head_dim, self.theta, eps = shape.head_dim, shape.rope_theta, shape.rms_norm_eps
        made = (Layer(width, inner, heads, kv_heads, shape.head_dim, eps, dropout) for _ in range(layers))
        self.layers, self.norm = nn.ModuleList(made), RMSNorm(width, eps)

    def forward(
        self, x: Tensor, past: Sequence[Past] = (), start: int = 0, probes: Mapping[int, Probe] | None = None
    ) -> Tensor:
        """Read at the positions from `start` on. past: of every layer, or nothing; probes: by the numbers of layers."""
        turn = rotary(torch.arange(start, start + x.shape[1], device=x.device), self.head_dim, self.theta)
        for i, layer in enumerate(self.layers):
            x = layer(x, turn, past=past[i] if past else None, probe=(probes or {}).get(i))
        return self.norm(x)


class TalkerModel(Stack):
    """The talker's stack with both embedding tables."""

    def __init__(self, shape: TalkerShape, codec_vocab: int, dropout: float) -> None:
        s, heads = shape, (shape.num_attention_heads, shape.num_key_value_heads)
        super().__init__(s, s.hidden_size, s.intermediate_size, *heads, s.num_hidden_layers, dropout)
        self.codec_embedding = nn.Embedding(codec_vocab, s.hidden_size)
        self.text_embedding = nn.Embedding(s.text_vocab_size, s.text_hidden_size)


class PredictorModel(Stack):
    """A stack over the books of one frame, with one embedding table (of the talker's width) for each book after the
    first."""

    def __init__(self, shape: TalkerShape, books: int, size: int) -> None:
        s, heads = shape, shape.predictor_num_attention_heads
        layers = s.predictor_num_hidden_layers
        super().__init__(s, s.predictor_hidden_size, s.predictor_intermediate_size, heads, heads, layers)
        self.codec_embedding = nn.ModuleList(nn.Embedding(size, s.hidden_size) for _ in range(books - 1))


class Predictor(nn.Module):
    """Its input is [hidden, code 0, code 1, ...] in the talker's width; position k + 1 predicts code k + 1."""

    def __init__(self, shape: TalkerShape, books: int, size: int) -> None:
        super().__init__()
        self.model = PredictorModel(shape, books, size)
        self.lm_head = nn.ModuleList(nn.Linear(shape.predictor_hidden_size, size, bias=False) for _ in range(books - 1))
        self.small_to_mtp_projection = nn.Linear(shape.hidden_size, shape.predictor_hidden_size)

    def forward(self, x: Tensor, past: Sequence[Past] = (), start: int = 0) -> Tensor:
        """Map [N, T, talker width] at the positions from `start` on to [N, T, predictor width]."""
        return self.model(self.small_to_mtp_projection(x), past, start)


class ResizeMlp(nn.Module):
    """Two linear layers with SiLU between them."""

    def __init__(self, i: int, inner: int, o: int) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(i, inner), nn.Linear(inner, o)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.silu(self.linear_fc1(x)))


class Talker(nn.Module):
    """Everything in model.safetensors, where `official` has its names."""

    def __init__(self, shape: TalkerShape, codec: CodecShape, speaker: SpeakerShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.books, self.size = codec.num_quantizers, codec.codebook_size
        vocab = codec.codebook_size + shape.control_ids
        self.model = TalkerModel(shape, vocab, dropout)
        self.text_projection = ResizeMlp(shape.text_hidden_size, shape.text_hidden_size, shape.hidden_size)
        self.codec_head = nn.Linear(shape.hidden_size, vocab, bias=False)
        self.code_predictor = Predictor(shape, self.books, self.size)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, 0.0, 0.02 if isinstance(module, nn.Linear) else 0.05)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        self.log_mel, self.speaker_encoder = LogMel(speaker.mel_dim), SpeakerEncoder(speaker, shape.hidden_size)

    def voices(self, heard: Tensor, narrow: float = 0.0) -> Tensor:
        """Map recordings [C, samples] to what takes the speaker's place [C, hidden]. narrow: how many of them lack
        their upper frequencies."""
        return self.speaker_encoder(narrowed(self.log_mel(heard), narrow))

    def embed_text(self, ids: Tensor) -> Tensor:
        """Map text ids int64 [...] to [..., hidden]."""
        return self.text_projection(self.model.text_embedding(ids))

    def embed_rest(self, codes: Tensor) -> Tensor:
        """Map codes of books 1..K-1, int64 [..., K - 1], to the sum of their embeddings [..., hidden]."""
        tables = self.code_predictor.model.codec_embedding
        return sum(table(codes[..., i]) for i, table in enumerate(tables))  # type: ignore[return-value]

    @torch.no_grad()
    def likeliest(self, hidden: Tensor, first: Tensor, temperature: Tensor | None = None) -> Tensor:
        """Give the predictor's own greedy codes of books 1..K-1: hidden [N, hidden], codebook 0 int64 [N] -> int64 [N,
        K - 1]. Shapes are static and nothing is read back, so it may stand in a captured graph. temperature: float32
        [N], at which they are drawn instead."""
        predictor = self.code_predictor
        past = [Past() for _ in predictor.model.layers]
        given = torch.stack([hidden, self.model.codec_embedding(first)], 1)
        found: list[Tensor] = []
        for i, (table, head) in enumerate(zip(predictor.model.codec_embedding, predictor.lm_head, strict=True)):
            logits = head(predictor(given, past, i + 1 if i else 0)[:, -1])
            found.append(logits.argmax(-1) if temperature is None else drawn(logits, temperature))
            given = table(found[-1])[:, None]
        return torch.stack(found, 1)

    def predict(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Give teacher-forced logits of books 1..K-1: hidden [N, hidden], codes int64 [N, K] -> [N, K - 1, entries]."""
        tables = self.code_predictor.model.codec_embedding
        known = [table(codes[:, i + 1]) for i, table in enumerate(list(tables)[:-1])]
        rows = torch.stack([hidden, self.model.codec_embedding(codes[:, 0]), *known], 1)
        out = self.code_predictor(rows)[:, 1:]
        return torch.einsum("nkd,kvd->nkv", out, torch.stack([head.weight for head in self.code_predictor.lm_head]))


def drawn(logits: Tensor, temperature: Tensor) -> Tensor:
    """Draw entries int64 [N] by logits [N, entries] at temperatures float32 [N]; at 0 these are the likeliest."""
    # Gumbel's noise makes the largest value a draw from the softmax, and may be scaled by 0 where logits cannot.
    chance = torch.rand_like(logits, dtype=torch.float32).clamp(1e-9, 1 - 1e-7)
    return (logits.float() - (-chance.log()).log() * temperature[:, None]).argmax(-1)


def official(talker: Talker) -> dict[str, Tensor]:
    """Give the weights under their official names."""
    return {k if k.startswith(ENCODER) else f"talker.{k}": v for k, v in talker.state_dict().items()}
