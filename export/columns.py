"""Quantising a matrix to int8 columns with one scale each, by NumPy alone.

A processor without VNNI multiplies unsigned 8-bit activations with signed 8-bit weights by ``vpmaddubsw``, which adds
the products of two neighbouring rows, 2k and 2k + 1, in 16 bits and saturates. Two weights of 127 and activations of
255 make 64770, which 16 bits cannot hold, so the product would be wrong without any error. Columns that are multiplied
as integers are therefore scaled so that no two such neighbours can exceed 16 bits, whatever the activations are. That
costs Gaussian weights 0.4 of their 8 bits; the usual remedy, halving every weight, costs a whole bit.
"""

import numpy as np
from numpy.typing import NDArray

LARGEST = 127
"""The largest magnitude of an int8 value; −128 is not used, so that the range is symmetric."""

SUM = 128
"""What two neighbours of the same sign may add up to: 255 · 128 = 32640 fits into 16 bits, 255 · 129 does not."""


def quantize_columns(weight: NDArray[np.float32], *, multiplied: bool) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Quantise ``weight`` [inputs, outputs]: int8 values of the same shape, and a float32 scale for each column.

    The scale is the smallest with which every value of the column lies within ±127 and, if the matrix is
    ``multiplied`` as integers, neighbours keep to ``SUM``. A matrix that is only stored so, and widened before use,
    has no such neighbours.
    """
    scales = np.abs(weight).max(0) / LARGEST
    if multiplied:
        # A little less than SUM, so that rounding cannot bring two neighbours beyond it.
        scales = np.maximum(scales, neighbours(weight) / np.float32(SUM - 0.01))
    scales = np.where(scales > 0, scales, 1 / LARGEST).astype(np.float32)
    return np.clip(np.rint(weight / scales), -LARGEST, LARGEST).astype(np.int8), scales


def neighbours(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each column the largest magnitude to which the values of one sign in rows 2k and 2k + 1 add up [outputs]."""
    pairs = np.pad(weight, ((0, len(weight) % 2), (0, 0))).reshape(-1, 2, weight.shape[1])
    return np.maximum(np.maximum(pairs, 0).sum(1).max(0), np.maximum(-pairs, 0).sum(1).max(0))
