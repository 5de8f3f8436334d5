"""Matrices as int8 columns, one scale each. NumPy alone.

A processor without VNNI multiplies unsigned 8-bit activations with signed 8-bit weights by ``vpmaddubsw``: it adds the
products of two neighbouring rows, 2k and 2k + 1, in 16 bits, and what is beyond them is cut off. A weight of 127 beside
another and activations up to 255 make 64770, so there the product would be wrong and nothing would say so. Columns
that are multiplied are therefore scaled until no two such neighbours reach beyond 16 bits whatever the activations are.
That costs Gaussian weights 0.4 of their 8 bits; halving every weight, the usual remedy, costs a whole one.
"""

import numpy as np
from numpy.typing import NDArray

LARGEST = 127

SUM = 128
"""Most that two neighbours of one sign may add up to: 255 · 128 = 32640 is within 16 bits, 255 · 129 is not."""


def quantize_columns(weight: NDArray[np.float32], *, multiplied: bool) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """int8 values [inputs, outputs] and one float32 scale per column of ``weight`` [inputs, outputs].

    The scale is the least by which the column's largest magnitude is within ±127 and, where it is ``multiplied`` as
    integers, neighbours keep to ``SUM``; otherwise (stored, and widened before use) the peak alone decides.
    """
    scales = np.abs(weight).max(0) / LARGEST
    if multiplied:
        # A little below: what adds up to less than 128 is never rounded to more.
        scales = np.maximum(scales, neighbours(weight) / np.float32(SUM - 0.01))
    scales = np.where(scales > 0, scales, 1 / LARGEST).astype(np.float32)
    return np.clip(np.rint(weight / scales), -LARGEST, LARGEST).astype(np.int8), scales


def neighbours(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest sum of one sign, positive or negative, in rows 2k and 2k + 1 of each column [outputs]."""
    pairs = np.pad(weight, ((0, len(weight) % 2), (0, 0))).reshape(-1, 2, weight.shape[1])
    return np.maximum(np.maximum(pairs, 0).sum(1).max(0), np.maximum(-pairs, 0).sum(1).max(0))
