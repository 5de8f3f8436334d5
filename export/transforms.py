"""How the weights of graphs are made from a checkpoint's tensors, by NumPy alone.

A graph's structure depends on dimensions alone, so the graphs of the released models lie in the wheel without weights,
with a recipe for every weight (export/known.py). Where a graph is traced, its weights are made by the same functions,
and the recipes are recorded: ``apply`` returns an array that knows how it was made.

A recipe is JSON: a string names a tensor of the checkpoint, a list has a function's name and its arguments, which are
recipes and integers.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from export.columns import quantize_columns

Array = NDArray[Any]
Floats = NDArray[np.float32]
Columns = tuple[NDArray[np.int8], Floats]
"""A matrix of 8-bit values, and a scale for each of its columns."""
Recipe = Any
"""``"tensor"``, or ``["function", argument, …]``."""

GELU_MINIMUM = 0.17
"""By how much GELU's outputs are raised to be positive: its smallest value is −0.16997."""

BLOCK = 32
"""How many values share a scale in the frame graph, as in llama.cpp's q4_k and q8_0."""
CANDIDATES = np.linspace(0.80, 1.05, 11, dtype=np.float32)
"""The scales that are tried for a block of 4-bit values, as shares of the one that reaches its largest value: a smaller
one rounds most values better and clips the largest. The range and its steps are a choice."""
WHOLE = np.ones(1, np.float32)
"""The only scale that is tried with 8 bits, where others would gain next to nothing."""


class HalfError(ValueError):
    """A weight is too large for float16."""


class Weight(np.ndarray[Any, np.dtype[Any]]):
    """An array that knows its recipe."""

    recipe: Recipe = None


class Several(tuple[Any, ...]):
    """The results of a function that has several, with their recipe."""

    recipe: Recipe = None


def tensor(values: NDArray[Any], name: str) -> Weight:
    """``values`` as a weight whose recipe is the checkpoint's tensor ``name``."""
    made: Weight = values.view(Weight)
    made.recipe = name
    return made


def apply(function: str, *arguments: Any) -> Any:
    """Call ``function`` of :data:`FUNCTIONS` with ``arguments``. The result has a recipe if every array among them
    has."""
    made: Any = FUNCTIONS[function](*arguments)
    several = isinstance(made, tuple)
    result: Any = Several(cast("tuple[Any, ...]", made)) if several else np.ascontiguousarray(made).view(Weight)
    parts = [each if isinstance(each, int) else getattr(each, "recipe", None) for each in arguments]
    if all(part is not None for part in parts):
        result.recipe = [function, *parts]
    return result


class Maker:
    """Makes weights by their recipes. It keeps the last result of a costly function, for the next recipes that use
    it."""

    def __init__(self, read: Callable[[str], NDArray[Any]]) -> None:
        self._read = read
        self._kept: tuple[str, Any] = ("", None)

    def make(self, recipe: Recipe) -> Any:
        """The values of ``recipe``."""
        if isinstance(recipe, str):
            return self._read(recipe)
        if isinstance(recipe, int):
            return recipe
        function, *arguments = cast("list[Any]", recipe)
        if function not in COSTLY:
            return tight(FUNCTIONS[function](*map(self.make, arguments)))
        key = json.dumps(recipe)
        if self._kept[0] != key:
            self._kept = ("", None)  # The old result is freed first, since two would take twice the memory.
            self._kept = (key, FUNCTIONS[function](*map(self.make, arguments)))
        return self._kept[1]


def tight(made: Any) -> Any:
    """``made`` as a contiguous array: the last bit of a sum over it depends on the order in memory."""
    return np.ascontiguousarray(cast(Array, made)) if isinstance(made, np.ndarray) else made


def leaves(recipe: Recipe) -> list[str]:
    """The tensors that ``recipe`` reads."""
    if isinstance(recipe, str):
        return [recipe]
    return [] if isinstance(recipe, int) else [name for each in recipe[1:] for name in leaves(each)]


def half(values: Floats) -> NDArray[np.float16]:
    """``values`` as float16.

    Raises:
        HalfError: a value is too large.
    """
    peak = float(np.abs(values).max(initial=0.0))
    if peak > float(np.finfo(np.float16).max):
        raise HalfError(f"reaches {peak:g}, beyond float16: choose fp32")
    return values.astype(np.float16)


def quotient(total: Floats, count: Floats) -> Floats:
    """A codebook's vectors, which are running sums divided by running counts
    (modeling_qwen3_tts_tokenizer_v2.py:676-679)."""
    return (total / np.maximum(count, np.float32(1e-5))[:, None]).astype(np.float32, copy=False)


def taps(kernel: Floats) -> Floats:
    """A convolution [outputs, inputs, kernel] as a product [kernel · inputs, outputs]."""
    return kernel.transpose(2, 1, 0).reshape(-1, len(kernel))


def rising_taps(kernel: Floats, stride: int) -> Floats:
    """A transposed convolution [inputs, outputs, kernel] as a product [kernel / stride · inputs, stride · outputs].

    The kernel is twice its stride: an output depends on its own input by the first half and on the previous input by
    the second.
    """
    halves = kernel.reshape(*kernel.shape[:2], -1, stride)[:, :, ::-1]
    return halves.transpose(2, 0, 3, 1).reshape(halves.shape[2] * len(kernel), -1)


def rounded(weight: Floats, bits: int) -> tuple[NDArray[np.uint8], Floats]:
    """Quantise a matrix [n, k] in blocks along k.

    A block's scale is the candidate with the least squared error. Codes are unsigned, with zero in the middle.

    Args:
        weight: float32 [n, k], k a multiple of ``BLOCK``, as llama.cpp's q4_k needs it anyway.
        bits: 4 or 8.

    Returns:
        The codes, uint8 [n, k / BLOCK, BLOCK · bits / 8], the lower bits first, and the scales, float32 [n, k / BLOCK].
    """
    n, k = weight.shape
    middle = 1 << bits - 1
    blocks = weight.reshape(n, k // BLOCK, BLOCK)
    place = np.abs(blocks).argmax(-1, keepdims=True)
    full = np.take_along_axis(blocks, place, -1) / np.float32(-middle)
    best_error = np.full(full.shape, np.inf, np.float32)
    best = np.zeros_like(full)
    for part in CANDIDATES if bits < 8 else WHOLE:
        scale = np.where(full == 0, np.float32(1), full * part)
        codes = np.clip(np.rint(blocks / scale), -middle, middle - 1)
        error = ((codes * scale - blocks) ** 2).sum(-1, keepdims=True)
        best = np.where(error < best_error, scale, best)
        best_error = np.minimum(error, best_error)
    codes: NDArray[np.uint8] = (np.clip(np.rint(blocks / best), -middle, middle - 1) + middle).astype(np.uint8)
    if bits == 4:
        codes = np.bitwise_or(codes[..., 0::2], codes[..., 1::2] << 4, dtype=np.uint8)
    return np.ascontiguousarray(codes), cast(Floats, best[..., 0])


def shift(columns: Columns) -> NDArray[np.float64]:
    """What must be added to each column's result if the rows that it multiplies were raised by ``GELU_MINIMUM``."""
    values, scales = columns
    return -GELU_MINIMUM * (values.astype(np.float64) * scales).sum(0)


def joined(*parts: Array) -> Array:
    """The matrices, stacked one below the other."""
    return np.concatenate(parts)


def one_step(kernel: Array) -> Array:
    """A convolution of kernel 1 as a matrix [outputs, inputs]."""
    return kernel[:, :, 0]


def two_dimensional(kernel: Array) -> Array:
    """A convolution's kernel with a height of one."""
    return kernel[:, :, None]


def column(vector: Array) -> Array:
    """A vector as a column."""
    return vector[:, None]


def squares(table: Array) -> Array:
    """The sum of squares of every row, as float32."""
    return (table.astype(np.float64) ** 2).sum(1).astype(np.float32)


def frequency(alpha: Array) -> Array:
    """e^alpha of Snake (modeling_qwen3_tts_tokenizer_v2.py:602-616), computed in float64 so that its rounding to
    float32 is the same on every machine."""
    return np.exp(alpha.astype(np.float64)).astype(np.float32)


def amplitude(beta: Array) -> Array:
    """1 / (e^beta + 1e-9) of Snake."""
    return (1.0 / (np.exp(beta.astype(np.float64)) + 1e-9)).astype(np.float32)


def multiplied(weight: Floats) -> Columns:
    """The 8-bit columns of a matrix that is multiplied as integers."""
    return quantize_columns(weight, multiplied=True)


def stored(weight: Floats) -> Columns:
    """The 8-bit columns of a matrix that is widened before use."""
    return quantize_columns(weight, multiplied=False)


def patches(kernel: Array) -> Array:
    """A convolution [outputs, inputs, 3, 3] as a product [3 · 3 · inputs, outputs], its rows in the order in which a
    patch of the input is laid out."""
    return kernel.transpose(2, 3, 1, 0).reshape(-1, len(kernel))


def steps(columns: Columns, count: int) -> Array:
    """Each column's scale divided by the number of steps that its activations have in a unit."""
    return columns[1] * np.float32(1 / count)


def excess(columns: Columns) -> Array:
    """What is added to a product's result to undo the raising of its rows, as float32 (:func:`shift`)."""
    return shift(columns).astype(np.float32)


def rest(bias: Array, columns: Columns) -> Array:
    """The same as :func:`excess`, added to the bias of the product."""
    return (bias.astype(np.float64) + shift(columns)).astype(np.float32)


def item(several: Sequence[Any], place: int) -> Any:
    """The result at ``place`` of a function that has several."""
    return several[place]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "half": half,
    "transpose": np.transpose,
    "join": joined,
    "matrix": one_step,
    "flat": two_dimensional,
    "column": column,
    "taps": taps,
    "rising_taps": rising_taps,
    "quotient": quotient,
    "squares": squares,
    "frequency": frequency,
    "amplitude": amplitude,
    "columns": multiplied,
    "stored": stored,
    "patches": patches,
    "steps": steps,
    "excess": excess,
    "rest": rest,
    "rounded": rounded,
    "item": item,
}
"""Every function that a recipe may name."""

COSTLY = frozenset({"columns", "stored", "rounded"})
"""The functions whose last result is kept for the next recipes: quantising takes long and gives several results."""
