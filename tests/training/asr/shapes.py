"""A recogniser small enough to train inside a test, and a tokenizer for it."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.asr.config import Batches, Config, Optimisation, Regularisation, Shape
from training.asr.tokenizer import train_tokenizer

SENTENCES = [
    "the boy said that the sea was calm", "a letter came to the old house", "he would not speak of it again",
    "there was no answer to her question", "she looked at him and laughed", "we must go before the rain begins",
] * 20  # fmt: skip
CONFIG = Config(
    name="tiny",
    shape=Shape(
        vocab=320, conv_channels=8, d_model=32, encoder_layers=2, encoder_heads=2, encoder_ffn=48,
        hidden=32, decoder_layers=2, heads=2, kv_heads=1, head_dim=16, decoder_ffn=48,
    ),
    regularisation=Regularisation(consistency_from=1),
    batches=Batches(
        seconds_per_step=32, row_seconds=(4, 8), row_share=(0.5, 0.5), easy_steps=0, augment_ramp=2,
        planners=1, pool_hours=0.1
    ),
    optimisation=Optimisation(warmup_steps=2),
    sources={"librispeech": 1.0},
    voices={"kokoro": 1.0},
)  # fmt: skip


def tiny_tokenizer(folder: Path) -> Tokenizer:
    return train_tokenizer(SENTENCES, CONFIG.shape.vocab, folder)


def write_shard(folder: Path, name: str, samples: NDArray[np.int16], text: str, voice: str = "kokoro") -> None:
    """One utterance as a synthetic shard."""
    samples.tofile(folder / f"{name}.pcm")
    (folder / f"{name}.json").write_text(json.dumps([(0, len(samples), text, voice, [])]))
