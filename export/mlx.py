"""Reading checkpoints that were converted for MLX, whose convolutions have another order of axes and whose matrices may
have few bits.

MLX stores a convolution with its inputs last. A quantised matrix is three tensors: ``weight`` packs unsigned values
into words of 32 bits, the first in the lowest bits; ``scales`` and ``biases`` have one value for each group of values
of a row. A value is ``scale · q + bias`` (mlx.core.quantize, mode "affine").
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from export.stored import CheckpointError, Stored

BITS = (2, 4, 8)
"""The numbers of bits that are read. MLX packs values of 3, 5 and 6 bits in another way, and no hearing or speaking
model is published so."""

GROUP = 64
"""How many values a group has if config.json does not tell: the default of mlx.core.quantize."""


@dataclass(frozen=True, slots=True)
class Turned(Stored):
    """A convolution that is stored with its inputs last and read with its inputs second."""

    def read(self) -> NDArray[np.float32]:
        """The values [outputs, inputs, …]."""
        outputs, inputs, *kernel = self.shape
        return np.moveaxis(self.values(0, self.size).reshape(outputs, *kernel, inputs), -1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed(Stored):
    """A quantised matrix [outputs, inputs]."""

    bits: int
    scales: Stored
    biases: Stored

    def rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows ``start`` to ``stop``, exclusive, widened to float32."""
        words = self.shape[1] * self.bits // 32
        raw = np.memmap(self.file, np.uint32, "r", self.offset + 4 * start * words, (stop - start, words))
        shifts = np.arange(0, 32, self.bits, dtype=np.uint32)
        values = (raw[:, :, None] >> shifts & np.uint32((1 << self.bits) - 1)).astype(np.float32)
        grouped = values.reshape(stop - start, self.scales.shape[1], -1)
        scales, biases = (each.rows(start, stop)[:, :, None] for each in (self.scales, self.biases))
        return (grouped * scales + biases).reshape(stop - start, self.shape[1])

    def read(self) -> NDArray[np.float32]:
        """The whole matrix."""
        return self.rows(0, self.shape[0])


def unpacked(tensors: Mapping[str, Stored], config: Mapping[str, Any]) -> dict[str, Stored]:
    """The tensors of a checkpoint in the form of official ones. Those of an official checkpoint are returned as they
    are.

    Raises:
        CheckpointError: a matrix is in a format that is not read; the message names it.
    """
    found = dict(tensors)
    for name, stored in tensors.items():
        if stored.dtype == "U32" and name.endswith(".weight"):
            base = name.removesuffix("weight")
            scales, biases = (found.pop(f"{base}{part}", None) for part in ("scales", "biases"))
            if scales is None or biases is None:
                raise CheckpointError(
                    f"{stored.file}: {name} is quantised without scales and biases, a format of MLX that is not read: "
                    "take the bf16, 8-bit or 4-bit model, or the official checkpoint"
                )
            found[name] = packed(name, stored, scales, biases, group_of(name, config))
        elif is_turned(name, stored):
            outputs, *kernel, inputs = stored.shape
            shape = (outputs, inputs, *kernel)
            found[name] = Turned(stored.file, stored.offset, stored.dtype, shape)
    return found


def packed(name: str, weight: Stored, scales: Stored, biases: Stored, group: int) -> Packed:
    """A quantised matrix.

    Raises:
        CheckpointError: its shapes do not fit each other, or its bits are not read.
    """
    (outputs, words), inputs = weight.shape, scales.shape[-1] * group
    bits = 32 * words // inputs
    if bits not in BITS or bits * inputs != 32 * words or scales.shape != biases.shape or scales.shape[0] != outputs:
        raise CheckpointError(
            f"{weight.file}: {name} is quantised to {32 * words / inputs:g} bits in groups of {group}, which is not "
            "read: take the bf16, 8-bit or 4-bit model, or the official checkpoint"
        )
    # The words are unpacked to float32, so that is the dtype that others see.
    plain = replace(weight, dtype="F32", shape=(outputs, inputs))
    return Packed(plain.file, plain.offset, plain.dtype, plain.shape, bits=bits, scales=scales, biases=biases)


def group_of(name: str, config: Mapping[str, Any]) -> int:
    """How many values a group of that matrix has: by its own entry in config.json, else by the common one."""
    whole: Any = config.get("quantization") or config.get("quantization_config") or {}
    if not isinstance(whole, dict):
        return GROUP
    entries = cast("dict[str, Any]", whole)
    named = {key: cast("dict[str, Any]", each) for key, each in entries.items() if isinstance(each, dict)}
    own = next((each for key, each in named.items() if name == f"{key}.weight"), dict[str, Any]())
    return int({**entries, **own}.get("group_size", GROUP))


def is_turned(name: str, stored: Stored) -> bool:
    """Whether a tensor is a convolution of the audio encoder with its inputs last."""
    convolution = name.startswith("audio_tower.conv2d") and name.endswith(".weight") and len(stored.shape) == 4
    return convolution and stored.shape[1:3] == (3, 3) and stored.shape[2:] != (3, 3)
