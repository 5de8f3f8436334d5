"""Codes that a talker makes of texts, many at a time: from them and what their decoder makes of them a new encoder
learns what the codes of given books stand for.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from training.tts.attention import Past
from training.tts.codes import Codes
from training.tts.config import FRAMES_AN_HOUR, Config
from training.tts.prompt import codec_ids, head
from training.tts.talker import Talker
from training.tts.tokenizer import text_ids

_FRAMES_A_TOKEN, _MOST = 4, 200  # a row ends there, whatever the talker says
_ENOUGH = 0.95  # of the rows: when they have ended, the others are cut too
_WARM = (0.0, 0.6, 0.9)  # temperatures of the later books, batch by batch: what is likeliest alone would be too clean


def _draw(logits: Tensor, temperature: float) -> Tensor:
    if temperature <= 0:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1)[:, 0]


def _rest(talker: Talker, hidden: Tensor, first: Tensor, temperature: float) -> Tensor:
    """Codes of books 1..K-1, int64 [N, K - 1]."""
    predictor = talker.code_predictor
    past = [Past() for _ in predictor.model.layers]
    given = torch.stack([hidden, talker.model.codec_embedding(first)], 1)
    found: list[Tensor] = []
    for table, top in zip(predictor.model.codec_embedding, predictor.lm_head, strict=True):
        found.append(_draw(top(predictor(given, past)[:, -1]), temperature))
        given = table(found[-1])[:, None]
    return torch.stack(found, 1)


@torch.inference_mode()
def speak(
    config: Config, talker: Talker, tokenizer: Tokenizer, texts: Sequence[str], speaker: str, temperature: float,
    rest: float,
) -> list[NDArray[np.int16]]:  # fmt: skip
    """Codes int16 [frames, K] of every text; rows that go on when nearly all have ended are cut."""
    text, codec = text_ids(tokenizer), codec_ids(config)
    device = talker.codec_head.weight.device
    tokens = [tokenizer.encode(t).ids for t in texts]
    most = min(_MOST, _FRAMES_A_TOKEN * max(map(len, tokens)))
    before_text, before_codec = head(text, codec, speaker, language=True)
    rows = torch.full((len(texts), len(before_text) + most + 1), text.pad, device=device)
    for row, ids in zip(rows, tokens, strict=True):
        whole = torch.tensor([*before_text, *ids, text.eos], device=device)[: rows.shape[1]]
        row[: len(whole)] = whole
    control = torch.tensor([*before_codec, codec.bos], device=device)
    start = len(control)
    x = talker.embed_text(rows[:, :start])
    x = x + talker.model.codec_embedding(control.clamp(min=0)) * (control >= 0)[:, None]
    past = [Past() for _ in talker.model.layers]
    made: list[Tensor] = []
    ends = torch.full((len(texts),), most, device=device)
    for frame in range(most):
        hidden = talker.backbone(x, past)[:, -1]
        logits = talker.codec_head(hidden)
        logits[:, talker.size : codec.eos] = -torch.inf
        logits[:, codec.eos + 1 :] = -torch.inf
        first = _draw(logits, temperature)
        ends = torch.where((first == codec.eos) & (ends == most), frame, ends)
        if float((ends < most).float().mean()) >= _ENOUGH:
            ends.clamp_(max=frame)
            break
        first = first.clamp(max=talker.size - 1)
        made.append(torch.cat([first[:, None], _rest(talker, hidden, first, rest)], 1))
        x = talker.model.codec_embedding(first) + talker.embed_rest(made[-1][:, 1:])
        x = (x + talker.embed_text(rows[:, start + frame]))[:, None]
    codes = torch.stack(made, 1).to(torch.int16).cpu().numpy()
    return [row[: int(end)] for row, end in zip(codes, ends.tolist(), strict=True)]


def say_all(
    config: Config, talker: Talker, tokenizer: Tokenizer, texts: Iterator[str], hours: float, seconds: float,
    batch: int = 192, temperature: float = 0.7,
) -> Codes:  # fmt: skip
    """Codes of `texts` by turns in every voice, up to `hours` of speech or for `seconds`."""
    rows: list[NDArray[np.int16]] = []
    said: list[str] = []
    speakers: list[str] = []
    began, frames, number = time.monotonic(), 0, 0
    while frames < hours * FRAMES_AN_HOUR and time.monotonic() - began < seconds:
        some = list(islice(texts, batch))
        if not some:
            break
        speaker = config.voices.speakers[number % len(config.voices.speakers)]
        warm = _WARM[number % len(_WARM)]
        made = speak(config, talker, tokenizer, some, speaker, temperature, warm)
        kept = [(t, c) for t, c in zip(some, made, strict=True) if len(c)]
        rows, said = rows + [c for _, c in kept], said + [t for t, _ in kept]
        speakers += [speaker] * len(kept)
        number, frames = number + 1, frames + sum(len(c) for _, c in kept)
        print(f"{speaker}: {frames / FRAMES_AN_HOUR:.2f} h after {time.monotonic() - began:.0f} s", flush=True)
    if not rows:
        raise ValueError("spoken: no texts")
    lengths = np.array([len(c) for c in rows], np.int64)
    return Codes(np.concatenate(rows), lengths, said, speakers, np.zeros(len(rows), np.bool_))
