"""Codes from text, frame by frame, in PyTorch: what evaluation listens to. The runtime has its own, faster one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from training.tts.attention import Past
from training.tts.prompt import CodecIds, head
from training.tts.talker import Talker
from training.tts.tokenizer import TextIds

_SHORTEST = 2  # frames, as the official min_new_tokens


@dataclass(frozen=True)
class Sampling:
    """temperature 0: the likeliest code. The predictor samples alike."""

    temperature: float = 0.7
    top_k: int = 50
    seed: int = 0


def _pick(logits: Tensor, sampling: Sampling, random: torch.Generator) -> int:
    if sampling.temperature <= 0:
        return int(logits.argmax())
    values, index = logits.float().topk(min(sampling.top_k, logits.numel()))
    return int(index[torch.multinomial((values / sampling.temperature).softmax(-1), 1, generator=random)])


@torch.inference_mode()
def generate(
    talker: Talker, tokens: Sequence[int], speaker: str, text: TextIds, codec: CodecIds,
    sampling: Sampling, most: int, *, language: bool = True,
) -> Iterator[list[int]]:  # fmt: skip
    """K codes a frame until the talker ends or `most` frames are made. `tokens`: the text's ids."""
    random = torch.Generator().manual_seed(sampling.seed)
    model, predictor = talker.model, talker.code_predictor
    before_text, before_codec = head(text, codec, speaker, language=language)
    ids = torch.tensor([[*before_text, tokens[0]]])
    control = torch.tensor([[*before_codec, codec.bos]])
    x = talker.embed_text(ids) + model.codec_embedding(control.clamp(min=0)) * (control >= 0)[..., None]
    trailing = talker.embed_text(torch.tensor([*tokens[1:], text.eos, text.pad]))
    past = [Past() for _ in model.layers]
    for frame in range(most):
        hidden = talker.backbone(x, past)[0, -1]
        logits = talker.codec_head(hidden).clone()
        forbidden = torch.ones_like(logits, dtype=torch.bool)
        forbidden[: talker.size] = False
        forbidden[codec.eos] = frame < _SHORTEST
        first = _pick(logits.masked_fill(forbidden, -torch.inf), sampling, random)
        if first == codec.eos:
            return
        codes, own = [first], [Past() for _ in predictor.model.layers]
        given = torch.stack([hidden, model.codec_embedding.weight[first]])[None]
        for book in range(talker.books - 1):
            out = predictor(given, own)[0, -1]
            codes.append(_pick(predictor.lm_head[book](out), sampling, random))
            given = predictor.model.codec_embedding[book].weight[codes[-1]][None, None]
        yield codes
        total = model.codec_embedding.weight[first] + talker.embed_rest(torch.tensor(codes[1:]))
        x = (total + trailing[min(frame, len(trailing) - 1)])[None, None]
