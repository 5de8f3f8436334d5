"""A deeper model with another vocabulary out of a trained one, hearing at first what that one heard.

New layers are copies whose output projections are zero, so they change nothing until they are trained. A token of the
new vocabulary takes its row where the old one has it too, else the mean of the rows of its spelling in lower case.
"""

import re
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.asr.config import Shape

_LAYER = re.compile(r"(?P<before>.*layers\.)(?P<index>\d+)(?P<after>\..*)")
_OUTPUTS = ("out_proj.weight", "out_proj.bias", "fc2.weight", "fc2.bias", "o_proj.weight", "down_proj.weight")
_EMBEDDING = "thinker.model.embed_tokens.weight"
_RARE = -6.0  # CTC bias of a token that the old vocabulary lacks


def _deeper(weights: dict[str, Tensor], prefix: str, layers: int) -> dict[str, Tensor]:
    old = 1 + max(int(m["index"]) for k in weights if k.startswith(prefix) and (m := _LAYER.fullmatch(k)))
    out: dict[str, Tensor] = {}
    for new in range(layers):
        source = new * old // layers
        added = new > 0 and (new - 1) * old // layers == source
        for key, value in weights.items():
            match = _LAYER.fullmatch(key)
            if key.startswith(prefix) and match and int(match["index"]) == source:
                zero = added and key.endswith(_OUTPUTS)
                out[f"{match['before']}{new}{match['after']}"] = torch.zeros_like(value) if zero else value.clone()
    return out


def _spelled(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """For each id of `new` the ids of `old` whose rows it begins with."""
    known = old.get_vocab(with_added_tokens=True)
    found: list[list[int]] = []
    for i in range(new.get_vocab_size(with_added_tokens=True)):
        token = new.id_to_token(i)
        if token in known:
            found.append([known[token]])
        else:
            found.append(list(old.encode(new.decode([i]).lower()).ids))
    return found


def grown(weights: dict[str, Tensor], shape: Shape, old_file: Path, new_file: Path) -> dict[str, Tensor]:
    """Weights of `shape` (its layers and vocabulary may be other than those of `weights`, widths may not)."""
    old, new = Tokenizer.from_file(str(old_file)), Tokenizer.from_file(str(new_file))
    out = {k: v for k, v in weights.items() if ".layers." not in k}
    out |= _deeper(weights, "thinker.audio_tower.layers.", shape.encoder_layers)
    out |= _deeper(weights, "thinker.model.layers.", shape.decoder_layers)
    rows = _spelled(old, new)
    if len(rows) != shape.vocab:
        raise ValueError(f"{new_file}: {len(rows)} tokens, must be {shape.vocab}")
    known = set(old.get_vocab(with_added_tokens=True))
    embedding, head, bias = weights[_EMBEDDING], weights["ctc.weight"], weights["ctc.bias"]
    silent = embedding.mean(0)
    out[_EMBEDDING] = torch.stack([embedding[ids].mean(0) if ids else silent for ids in rows])
    ctc = [head[ids[0]] if ids else torch.zeros_like(head[0]) for ids in rows]
    out["ctc.weight"] = torch.stack([*ctc, head[-1]])
    same = [new.id_to_token(i) in known for i in range(len(rows))]
    sure = [bias[ids[0]] if ok and ids else bias.new_tensor(_RARE) for ids, ok in zip(rows, same, strict=True)]
    out["ctc.bias"] = torch.stack([*sure, bias[-1]])
    return out
