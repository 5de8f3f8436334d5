"""The talker speaks many rows at once, as the runtime lets it speak one: codebook 0 is drawn from the likeliest
entries, the predictor gives the other books of the frame, and the talker looks back on both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.learner import autocast
from training.qwen3 import Past
from training.tts.checkpoint import TEMPERATURE, TOP_K
from training.tts.prompt import lay_out
from training.tts.rows import Layout
from training.tts.talker import Talker, drawn

# Frames that a row may have: so many for each token and so many more, and never more than the last. Speech has 2.3 a
# token, so what comes this far does not find its end.
_OF_A_TOKEN, _MORE, _MOST = 5.5, 25, 300
# The end is not allowed in so many frames, as in the official code.
_LEAST = 2
# After so many frames it is asked whether the batch is through. It is when this share has not ended, because a few rows
# that never end would take as long as all others.
_ASKED, _LEFT = 10, 0.003


@dataclass(frozen=True)
class Saying:
    """What is to be said. tokens: of the sounds; speaker: the name of one who has an id, or a voice float32 [hidden]
    (`Talker.voices`); first, rest: the temperatures of codebook 0 and of the other books, 0 for the likeliest entry."""

    tokens: Sequence[int]
    speaker: str | Tensor
    first: float = TEMPERATURE
    rest: float = 0.0

    @property
    def name(self) -> str:
        """The name by which the row is laid out; "" for a voice."""
        return self.speaker if isinstance(self.speaker, str) else ""


def voices_of(wanted: Sequence[Saying], device: torch.device) -> tuple[Tensor, Tensor]:
    """Give which of the rows are said by a voice, int64 [C], and these voices float32 [C, hidden]."""
    found = [(i, one.speaker) for i, one in enumerate(wanted) if isinstance(one.speaker, Tensor)]
    rows = torch.tensor([i for i, _ in found], dtype=torch.long, device=device)
    return rows, torch.stack([voice for _, voice in found]).to(device) if found else torch.zeros(0, 0, device=device)


@torch.no_grad()
def speak(
    talker: Talker, layout: Layout, wanted: Sequence[Saying], *, language: bool
) -> list[NDArray[np.int16] | None]:
    """Give the codes int16 [frames, K] of each row; None for a row that did not end. The talker must be in eval mode,
    or it is not what speaks at run time. language: whether the rows name their language."""
    device, eos = layout.references.device, layout.codec.eos
    most = min(_MOST, int(_OF_A_TOKEN * max(len(one.tokens) for one in wanted)) + _MORE)
    blank = np.zeros((most, talker.books), np.int16)
    rows = [lay_out(blank, w.tokens, w.name, layout.text, layout.codec, language=language) for w in wanted]
    begin = rows[0].begin
    text = torch.from_numpy(np.stack([row.text for row in rows])).to(device).long()
    known = torch.from_numpy(np.stack([row.codes[: begin + 1, 0] for row in rows])).to(device).long()
    first, rest = torch.tensor([(w.first, w.rest) for w in wanted], device=device).unbind(1)
    cloned, voices = voices_of(wanted, device)
    refused = torch.arange(talker.codec_head.out_features, device=device) >= talker.size
    ends = torch.full((len(rows),), most, device=device)
    found: list[Tensor] = []
    with autocast(device):
        said = talker.embed_text(text)
        x = said[:, : begin + 1] + talker.model.codec_embedding(known.clamp(min=0)) * (known >= 0)[..., None]
        if len(cloned):
            x[cloned, begin - 2] += voices.to(x.dtype)
        past = [Past() for _ in talker.model.layers]
        for n in range(most):
            hidden = talker.model(x, past, begin + n if n else 0)[:, -1]
            refused[eos] = n < _LEAST
            top, at = talker.codec_head(hidden).float().masked_fill(refused, -torch.inf).topk(min(TOP_K, talker.size))
            chosen = at.gather(1, drawn(top, first)[:, None])[:, 0]
            ends = torch.where(chosen == eos, ends.clamp(max=n), ends)
            # A row that has ended goes on for nobody.
            chosen = torch.where(chosen == eos, 0, chosen)
            others = talker.likeliest(hidden, chosen, rest)
            found.append(torch.cat([chosen[:, None], others], 1).to(torch.int16))
            if n % _ASKED == _ASKED - 1 and bool((ends == most).float().mean() < _LEFT):
                break
            x = said[:, begin + 1 + n] + talker.model.codec_embedding(chosen) + talker.embed_rest(others)
            x = x[:, None]
    codes = torch.stack(found, 1).cpu().numpy()
    stops: list[int] = ends.tolist()
    return [row[:end] if end < most else None for row, end in zip(codes, stops, strict=True)]
