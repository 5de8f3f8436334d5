"""The weights of a module, as torch buffers that know how they were made from a checkpoint."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from export.checkpoint import Checkpoint
from export.transforms import Recipe, apply, tensor

Read = Callable[[str], NDArray[np.float32]]
"""Reads a tensor of a checkpoint by its name."""


def reader(checkpoint: Checkpoint) -> Read:
    """A function that reads tensors of ``checkpoint``, with their names as recipes."""
    return lambda name: tensor(checkpoint.tensors[name].read(), name)


def constant(values: NDArray[np.float32], dtype: torch.dtype = torch.float32) -> nn.Buffer:
    """A buffer of ``values``, with their recipe, as float16 if ``dtype`` is that, else as float32."""
    made = apply("half", values) if dtype == torch.float16 else values
    buffer = nn.Buffer(torch.from_numpy(np.array(made, order="C")))
    cast(Any, buffer).recipe = getattr(made, "recipe", None)
    return buffer


def recipes(module: nn.Module) -> dict[str, Recipe]:
    """The recipe of every weight that is made from a checkpoint, by its name, which the exporter keeps for the
    initializer."""
    found = ((name, getattr(buffer, "recipe", None)) for name, buffer in module.named_buffers())
    return {name: recipe for name, recipe in found if recipe is not None}
