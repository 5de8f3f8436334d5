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
import onnx
import torch

from export import api
from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.sound import sound
from export.verify.reference import Reference
from streaming.prompt import LANGUAGES
from tests.reference.official import longer, write_checkpoint

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

CHUNKS = (200, 400)
"""Frames of longer chunks. Only the stem knows how long a chunk is, so it is all that is written for them."""

TOKENS = 64
SEED = 0
PROMPTS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ()),
    ("zh", ()),
    (None, ("hearsay", "Qwen3 ASR")),
    ("en", ("fox",)),
)


def write(directory: Path) -> None:
    """Write the golden directory: ``fp32``, ``int8`` (model directories), ``official.npz``, ``prompts.json``, and
    ``stem-200.onnx`` …: the int8 stems of longer chunks, complete in themselves."""
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
    for frames in CHUNKS:
        arrays |= write_longer(directory, frames)
    np.savez_compressed(directory / "official.npz", **arrays)
    prompts = [
        {"language": code, "keyterms": terms,
         "ids": reference.prompt(tokenizer, sound(1.0, 0), LANGUAGES[code] if code else None, " ".join(terms) or None)}
        for code, terms in PROMPTS
    ]  # fmt: skip
    (directory / "prompts.json").write_text(json.dumps(prompts))


def write_longer(directory: Path, frames: int) -> dict[str, Any]:
    """The stem for chunks of ``frames``; the official embeddings of the longest clip under that chunk length."""
    with tempfile.TemporaryDirectory() as folder:
        shape = longer(frames // 2, SHAPE)
        checkpoint = write_checkpoint(Path(folder) / "golden", shape, layout="original", seed=SEED)
        model = api.run(
            checkpoint, Path(folder) / "model", encoder="int8", decoder="q8_0", clip=False, name="golden-int8"
        )
        onnx.save(onnx.load(model / "stem.onnx"), directory / f"stem-{frames}.onnx")
        for file in ("decoder.gguf", "tokenizer.json", "mel.npy"):
            if (model / file).read_bytes() != (directory / "int8" / file).read_bytes():
                raise RuntimeError(f"{file} depends on the chunk length: the golden model cannot be put together")
        opened = open_checkpoint(checkpoint)
        reference = Reference(opened, read_dims(opened))
    features, mask = reference.features(sound(*CLIPS[-1]))
    return {f"embeddings{len(CLIPS) - 1}_{frames}": reference.encode(features, mask)}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
