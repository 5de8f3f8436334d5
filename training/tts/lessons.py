"""Codes that a new encoder is taught by, read and held against the codec that is to have them.

Contract: what does not fit is a ValueError that names the option, the field and its limit, before anything is trained:
on a GPU a code outside its book ends the process without a word about it.
"""

from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from training.tts.codes import load_codes
from training.tts.config import CodecShape


def load_lessons(path: Path, shape: CodecShape, frames: int) -> NDArray[np.int16]:
    """Codes int16 [frames, K] of all utterances in the codes.npz `path`, at least `frames` (those of a crop).

    Raises:
        ValueError: no such file, not codes, or not those of such a codec.
    """
    try:
        codes = load_codes(path).codes
    except FileNotFoundError:
        raise ValueError(f"codec --codes: {path}: no such file") from None
    except (
        OSError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
        BadZipFile,
    ) as error:  # TypeError: one array, no archive
        raise ValueError(f"codec --codes: {path}: no codes.npz as spoken and encode make it ({error})") from error
    if codes.ndim != 2 or codes.dtype != np.int16:
        raise ValueError(
            f"codec --codes: {path}: codes are {codes.dtype} {list(codes.shape)}, must be int16 [frames, books]"
        )
    if codes.shape[1] != shape.num_quantizers:
        raise ValueError(
            f"codec --codes: {path}: codes of {codes.shape[1]} books, "
            f"must be codec.num_quantizers = {shape.num_quantizers}"
        )
    if len(codes) < frames:
        raise ValueError(
            f"codec --codes: {path}: {len(codes)} frames, must be at least codec_training.frames = {frames}"
        )
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= shape.codebook_size:
        raise ValueError(
            f"codec --codes: {path}: entries {low}..{high}, "
            f"must lie in 0..{shape.codebook_size - 1} (codec.codebook_size = {shape.codebook_size})"
        )
    return codes
