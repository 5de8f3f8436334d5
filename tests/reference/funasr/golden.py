"""The golden Fun-ASR-Nano and what the official code makes of it, compared by `make reference` and `make test`.

As tests/reference/golden.py for the other family: ``nano`` is the float32 export of a tiny checkpoint, the arrays come
from funasr, transformers and torch alone.

usage: python -m tests.reference.funasr.golden DIRECTORY
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from export import api
from export.sound import sound
from tests.reference.funasr.official import GOLDEN, NAMES, Official, write_checkpoint

CLIPS = ((0.3, 0), (2.0, 1), (9.7, 2))
"""Seconds and seed."""
TOKENS = 64
PROMPTS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ()),
    ("zh", ()),
    (None, ("hearsay", "Qwen3 ASR")),
    ("en", ("fox",)),
)
SEED = 0


def write(directory: Path) -> None:
    """Write the golden directory: ``nano`` (a model directory) and ``official.npz``."""
    torch.set_num_threads(2)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint(Path(folder) / "golden", GOLDEN, seed=SEED)
        api.run(checkpoint, directory / "nano", encoder="fp32", decoder="f32", clip=False, name="golden-nano")
        official = Official(checkpoint)
    arrays: dict[str, Any] = {}
    for number, clip in enumerate(CLIPS):
        samples = sound(*clip)
        features = official.features(samples)
        embeddings, ctc = official.encode(features)
        assert ctc is not None
        rows, ids = official.prepared(samples, None, [])
        generated = official.generate(rows, TOKENS)
        arrays |= {
            # Every eighth row and every fourth band: enough to compare, and small.
            f"features{number}": features[0].numpy()[::8, ::4],
            f"embeddings{number}": embeddings,
            f"ctc{number}": ctc[::8],
            f"prompt{number}": np.array(ids),
            f"tokens{number}": generated.tokens,
            f"logits{number}": generated.logits[::16],
        }
    for number, (code, terms) in enumerate(PROMPTS):
        _, ids = official.prepared(sound(1.0, 0), NAMES[code] if code else None, list(terms))
        arrays[f"asked{number}"] = np.array(ids)
    np.savez_compressed(directory / "official.npz", **arrays)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
