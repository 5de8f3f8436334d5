"""The golden model and what the official code makes of it, compared by `make reference` and `make test`.

A checkpoint so small that its export fits the repository; the arrays beside it come from transformers and torch alone,
so that `make test` can hold the runtime to the official code without either.

usage: python -m tests.reference.golden DIRECTORY
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from export import api
from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.reference import Reference
from export.sound import sound
from streaming.prompt import LANGUAGES
from tests.reference.official import write_checkpoint

SHAPE: Mapping[str, Any] = {
    "audio_config": {
        "num_mel_bins": 128, "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 64, "d_model": 48,
        "n_window": 50, "n_window_infer": 800, "output_dim": 64, "downsample_hidden_size": 8,
    },
    "text_config": {
        "model_type": "qwen3", "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "tie_word_embeddings": True,
}  # fmt: skip

CLIPS = ((0.3, 0), (2.0, 1), (9.7, 2))
"""Seconds and seed: one that the extractor pads, one window, two windows."""

TOKENS = 64
SEED = 0
PROMPTS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ()),
    ("zh", ()),
    (None, ("hearsay", "Qwen3 ASR")),
    ("en", ("fox",)),
)


def write(directory: Path) -> None:
    """Write the golden directory: ``fp32``, ``int8`` (model directories), ``official.npz``, ``prompts.json``."""
    torch.set_num_threads(2)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint(Path(folder) / "golden", SHAPE, layout="original", seed=SEED)
        for encoder, decoder in (("fp32", "f32"), ("int8", "q8_0")):
            api.run(
                checkpoint, directory / encoder, encoder=encoder, decoder=decoder, clip=True, name=f"golden-{encoder}"
            )
        opened = open_checkpoint(checkpoint)
        reference = Reference(opened, read_dims(opened))
    tokenizer = directory / "fp32" / "tokenizer.json"
    arrays: dict[str, Any] = {}
    for number, (seconds, seed) in enumerate(CLIPS):
        samples = sound(seconds, seed)
        features, mask = reference.features(samples)
        ids = reference.prompt(tokenizer, samples, None, None)
        generated = reference.generate(ids, features, mask, TOKENS)
        best = np.sort(generated.logits, 1)
        arrays |= {
            # Every fourth band: enough to compare, and small.
            f"features{number}": features[0].numpy()[::4, : int(mask.sum())],
            f"embeddings{number}": reference.encode(features, mask),
            f"prompt{number}": np.array(ids),
            f"tokens{number}": generated.tokens,
            f"margins{number}": (best[:, -1] - best[:, -2]) / generated.logits.std(1),
            f"logits{number}": generated.logits[::16],
        }
    np.savez_compressed(directory / "official.npz", **arrays)
    prompts = [
        {"language": code, "keyterms": terms,
         "ids": reference.prompt(tokenizer, sound(1.0, 0), LANGUAGES[code] if code else None, " ".join(terms) or None)}
        for code, terms in PROMPTS
    ]  # fmt: skip
    (directory / "prompts.json").write_text(json.dumps(prompts))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
