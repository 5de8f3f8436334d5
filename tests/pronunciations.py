"""Small nets that tell phones of words (streaming/pronunciation.py)."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]

LETTERS = "abcdeknt'"
CLASSES, SLOTS = 5, 2
ALPHABET = "abcdefghijklmnopqrstuvwxyz'"


def arrays_of(seed: int = 0, convolutions: tuple[int, ...] = (3, 5, 1)) -> Arrays:
    """A net of small whole numbers, so that every order of summation gives the same bits."""
    random = np.random.default_rng(seed)

    def whole(*shape: int) -> npt.NDArray[np.float16]:
        return random.integers(-2, 3, shape).astype(np.float16)

    arrays: Arrays = {
        "letters": np.array(LETTERS),
        "names": np.array([f"p{i}" for i in range(CLASSES)]),
        "embedding": whole(len(LETTERS) + 2, 4),
        "out.weight": whole(SLOTS * (CLASSES + 1), 6),
        "out.bias": whole(SLOTS * (CLASSES + 1)),
    }
    for i, width in enumerate(convolutions):
        arrays[f"convolution.{i}.weight"] = whole(6, 6 if i else 4, width)
        arrays[f"convolution.{i}.bias"] = whole(6)
    return arrays


def spelling() -> Arrays:
    """A net that spells: each letter is a phone, doubled ones are two."""
    n = len(ALPHABET)
    out = np.zeros((2, n + 1, n), np.float16)
    out[0, :n] = np.eye(n)
    bias = np.zeros((2, n + 1), np.float16)
    bias[:, n] = 0.5
    return {
        "letters": np.array(ALPHABET),
        "names": np.array(list(ALPHABET)),
        "embedding": np.pad(np.eye(n, dtype=np.float16), ((1, 1), (0, 0))),
        "convolution.0.weight": np.eye(n, dtype=np.float16)[:, :, None],
        "convolution.0.bias": np.zeros(n, np.float16),
        "out.weight": out.reshape(-1, n),
        "out.bias": bias.reshape(-1),
    }


def stored(folder: Path, arrays: Arrays) -> Path:
    """Written into ``folder``."""
    path = folder / "pronunciation.npz"
    np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
    return path
