"""Codes stand for utterances, and the talker learns from them."""

from pathlib import Path

import numpy as np
import torch

from training.learner import autocast
from training.lengths import by_length
from training.tts.codec import Codec
from training.tts.config import FRAME
from training.tts.speech import Speech, concatenate, load

# A batch has at most so many frames, which are 13 minutes of speech.
_FRAMES = 10_000


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
