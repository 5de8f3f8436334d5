"""Codes as the talker makes them of recorded ones: codebook 0 of every frame stays, the other books are the predictor's
likeliest after the recorded frames before. A decoder that learns from both is used to what it will be given.
"""

from dataclasses import replace

import torch
from tokenizers import Tokenizer

from training.tts.codes import Codes
from training.tts.config import Config
from training.tts.graph import autocast
from training.tts.prompt import codec_ids
from training.tts.references import References
from training.tts.rows import Bucket, laid_out
from training.tts.talker import Talker
from training.tts.talker_step import heard_voices, with_own
from training.tts.tokenizer import text_ids

_POSITIONS = 32_768  # of a batch


@torch.no_grad()
def own_codes(
    talker: Talker, codes: Codes, config: Config, tokenizer: Tokenizer, device: torch.device,
    references: References | None = None,
) -> Codes:  # fmt: skip
    """The same utterances; those that cannot be laid out (`rows.laid_out`) keep their codes."""
    talker.to(device).eval()
    made = replace(codes, codes=codes.codes.copy())
    rows = laid_out(codes, range(len(codes.text)), config, tokenizer, references)
    order = sorted(rows, key=lambda i: len(rows[i].text))
    while order:
        count = max(1, _POSITIONS // len(rows[order[-1]].text))
        group, order = order[-count:], order[:-count]
        length = len(rows[group[-1]].text)
        group.sort(key=lambda i: rows[i].place is not None)  # a bucket's own order
        bucket = Bucket([rows[i] for i in group], length, text_ids(tokenizer), codec_ids(config), device, references)
        batch = bucket.batch(torch.arange(len(group), device=device), None)
        given = torch.cat([batch.codec[..., None], batch.rest], -1)
        with autocast(device):
            voices = heard_voices(talker, batch)
            changed = with_own(talker, batch, given, voices, torch.ones(len(group), device=device), 0.0)
        found = changed.to(torch.int16).cpu().numpy()
        for row, frames, i in zip(found, batch.frame.cpu().numpy(), group, strict=True):
            made.of(i)[:] = row[frames]
    return made
