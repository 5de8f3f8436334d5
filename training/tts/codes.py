"""Codes stand for utterances, and the talker and the decoder learn from them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from training.learner import autocast
from training.lengths import by_length
from training.tts.codec import Codec
from training.tts.config import FRAME, Config
from training.tts.references import References
from training.tts.rows import Bucket, Layout
from training.tts.speech import Speech, concatenate, load
from training.tts.talker import Talker
from training.tts.talker_step import heard_voices, with_own

# A batch of the encoder has at most so many frames, which are 13 minutes of speech, and one of the talker so many
# positions.
_FRAMES, _POSITIONS = 10_000, 32_768


@torch.no_grad()
def encode(codec: Codec, paths: list[Path], device: torch.device) -> Speech:
    """Give the codes of every utterance in the shards `paths`, in their order. Rows of about one length are encoded
    together. After a shorter row the encoder sees silence, as it does at the end of any utterance."""
    codec.to(device).eval()
    if not paths:
        raise ValueError("encode: no utterances in the given folders")
    return concatenate([_encoded(codec, load(path), device) for path in paths])


def _encoded(codec: Codec, shard: Speech, device: torch.device) -> Speech:
    lengths = [u.frames for u in shard.utterances]
    made = Speech(shard.utterances, {"codes": np.zeros((sum(lengths), codec.shape.num_quantizers), np.int16)})
    for group in by_length(lengths, _FRAMES):
        wave = np.zeros((len(group), lengths[group[-1]] * FRAME), np.int16)
        for row, i in zip(wave, group, strict=True):
            row[: lengths[i] * FRAME] = shard.of("wave", i)
        with autocast(device):
            z = codec.encoder(torch.from_numpy(wave).to(device)[:, None].float() / 32768)
        codes = codec.decoder.quantizer(z.float()).codes.transpose(1, 2).to(torch.int16).cpu().numpy()
        for row, i in zip(codes, group, strict=True):
            made.of("codes", i)[:] = row[: lengths[i]]
    return made


@torch.no_grad()
def own_codes(talker: Talker, codes: Speech, config: Config, tokenizer: Tokenizer, references: References) -> Speech:
    """Give the same utterances as the talker makes them: codebook 0 of every frame stays, and the other books are the
    predictor's likeliest after the recorded frames before. A decoder that learns from both is used to what it will be
    given. Those that cannot be laid out (`rows.Layout`) keep their codes."""
    device = references.device
    talker.to(device).eval()
    made = replace(codes, arrays={"codes": codes.arrays["codes"].copy()})
    layout = Layout(config, tokenizer, references)
    rows = layout.rows(codes, range(len(codes.utterances)))
    numbers = list(rows)
    for places in by_length([len(row.text) for row in rows.values()], _POSITIONS):
        # They stand in a bucket's order.
        group = sorted((numbers[place] for place in places), key=lambda i: rows[i].place is not None)
        bucket = Bucket(layout, [rows[i] for i in group], max(len(rows[i].text) for i in group))
        batch = bucket.batch(torch.arange(len(group), device=device), None)
        with autocast(device):
            voices = heard_voices(talker, batch)
            changed = with_own(talker, batch, batch.codes, voices, torch.ones(len(group), device=device), 0.0)
        found = changed.to(torch.int16).cpu().numpy()
        for row, frames, i in zip(found, batch.frame.cpu().numpy(), group, strict=True):
            made.of("codes", i)[:] = row[frames]
    return made
