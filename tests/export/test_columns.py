"""Integer products are the same on every processor, since no sum of two neighbouring products exceeds 16 bits.

A processor without VNNI adds the products of rows 2k and 2k + 1 in 16 bits and cuts off what is beyond
(export/columns.py). Here the sums are computed in NumPy, so a graph that could lose some fails on every machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from export.columns import quantize_columns

ROOT = Path(__file__).parents[2]
GRAPHS = sorted(path for folder in ("models", "tests/golden") for path in (ROOT / folder).rglob("*.onnx"))
INTEGER = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QGemm", "DynamicQuantizeMatMul"}
"""Operators that multiply integers."""

Fields = Mapping[int, Sequence[int | bytes]]


def saturating(activations: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.int64]:
    """The product ``activations @ weight`` as vpmaddubsw computes it: sums of two products saturate at 16 bits."""
    odd = len(weight) % 2
    rows = np.pad(activations, ((0, 0), (0, odd))).reshape(len(activations), -1, 2, 1)
    pairs = np.pad(weight, ((0, odd), (0, 0))).reshape(-1, 2, weight.shape[1])
    return (rows * pairs).sum(2).clip(-(2**15), 2**15 - 1).sum(1)


def worst(weight: NDArray[np.int8]) -> tuple[int, int]:
    """The greatest and the least sum of two neighbouring products, for all activations of 0…255 [rows 2k and 2k +
    1]."""
    wide = np.pad(weight.astype(np.int64), ((0, len(weight) % 2), (0, 0))).reshape(-1, 2, weight.shape[1])
    return int((255 * (wide > 0) * wide).sum(1).max()), int((255 * (wide < 0) * wide).sum(1).min())


def parsed(data: bytes) -> Fields:
    """The fields of a message in protobuf's wire format by number: integers as they are, all else as bytes."""
    fields, at = dict[int, list[int | bytes]](), 0

    def integer() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value

    while at < len(data):
        key = integer()
        if key & 7 == 0:
            fields.setdefault(key >> 3, []).append(integer())
        else:
            size = {1: 8, 5: 4}.get(key & 7) or integer()
            fields.setdefault(key >> 3, []).append(data[at : at + size])
            at += size
    return fields


def messages(fields: Fields, number: int) -> Iterator[Fields]:
    """The messages in a field."""
    for value in fields.get(number, ()):
        assert isinstance(value, bytes)
        yield parsed(value)


def text(fields: Fields, number: int, place: int = 0) -> str:
    """The string in a field."""
    value = fields[number][place]
    assert isinstance(value, bytes)
    return value.decode()


def products(path: Path) -> dict[str, NDArray[np.int8]]:
    """The weights that a graph multiplies as integers, by name. Field numbers are those of onnx.proto, since no onnx is
    installed here."""
    (graph,) = messages(parsed(path.read_bytes()), 7)
    tensors = {text(tensor, 8): tensor for tensor in messages(graph, 5)}
    found = dict[str, NDArray[np.int8]]()
    for node in messages(graph, 1):
        kind = text(node, 4)
        # Where bytes are made numbers before a convolution, the runtime makes a product of bytes of both.
        held = kind == "DequantizeLinear" and tensors.get(text(node, 1), {}).get(2) == [3]
        if kind not in INTEGER and not held:
            continue
        assert held or kind == "MatMulInteger", f"{path}: no rule is known for {kind}"
        name = text(node, 1, 0 if held else 1)
        tensor = tensors[name]
        assert tensor[2] == [3], f"{path}: {name} is no int8"
        if 13 in tensor:
            place = {text(entry, 1): text(entry, 2) for entry in messages(tensor, 13)}
            with (path.parent / place["location"]).open("rb") as stream:
                stream.seek(int(place["offset"]))
                raw = stream.read(int(place["length"]))
        else:
            (raw,) = tensor[9]
        assert isinstance(raw, bytes)
        shape = [size for size in tensor[1] if isinstance(size, int)]
        found[name] = np.frombuffer(raw, np.int8).reshape(shape)
        if held:  # A kernel may take a convolution's rows in any order: the largest stand together here.
            found[name] = -np.sort(-found[name].reshape(shape[0], -1).astype(np.int64), axis=1).T.astype(np.int8)
    return found


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_product_of_a_graph_leaves_16_bits(path: Path) -> None:
    """No sum can exceed 16 bits, whatever the activations, in any graph that ships or that tests compare with."""
    weights = products(path)
    # What is read is what the graphs have: the hearing models multiply integers, and so does the speaker encoder; no
    # other graph does.
    hears = path.parent.name in ("pocket-asr-en", "pocket-speakers", "int8") or path.name.startswith("stem-")
    assert bool(weights) == hears
    for name, weight in weights.items():
        greatest, least = worst(weight)
        assert -(2**15) <= least and greatest < 2**15, f"{name}: {least}…{greatest}"


columns = st.tuples(
    st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1), st.sampled_from(["normal", "heavy", "equal"])
)


def drawn(rows: int, outputs: int, seed: int, kind: str) -> NDArray[np.float32]:
    """A random matrix: Gaussian, with single large weights, or all of one size, which is the worst case."""
    random = np.random.default_rng(seed)
    shape = (rows, outputs)
    values = {
        "normal": random.standard_normal(shape),
        "heavy": random.standard_cauchy(shape),
        "equal": random.choice([-1.0, 0.0, 1.0], shape),
    }[kind]
    return (values * 10.0 ** random.integers(-6, 4)).astype(np.float32)


@given(columns)
def test_multiplied_columns_are_exact_for_the_worst_activations(chosen: tuple[int, int, int, str]) -> None:
    """Products are exact, and each weight is off by at most half a step, which is at most twice that of a stored
    column."""
    weight = drawn(*chosen)
    values, scales = quantize_columns(weight, multiplied=True)
    wide = values.astype(np.int64)
    for column in wide.T:
        for activations in (255 * (column > 0), 255 * (column < 0), np.full(len(column), 255)):
            rows = activations[None].astype(np.int64)
            np.testing.assert_array_equal(saturating(rows, wide), rows @ wide)
    assert (np.abs(values * scales.astype(np.float64) - weight) <= 0.5001 * scales).all()
    _, stored = quantize_columns(weight, multiplied=False)
    assert (scales >= stored).all() and (scales <= 2 * stored * 1.0001).all()


@given(columns)
def test_stored_columns_reach_127(chosen: tuple[int, int, int, str]) -> None:
    """Columns that are only stored use the whole range, since they are widened before use."""
    weight = drawn(*chosen)
    values, scales = quantize_columns(weight, multiplied=False)
    used = np.abs(weight).max(0) > 0
    assert (np.abs(values).max(0)[used] == 127).all() and not values[:, ~used].any()
    assert (np.abs(values * scales.astype(np.float64) - weight) <= 0.5001 * scales).all()


def test_what_saturates_is_seen() -> None:
    """Two neighbours of 127 saturate, and the same weights in another order do not."""
    beside, apart = (np.array(rows, np.int8)[:, None] for rows in ([127, 127, 0, 0], [127, 0, 127, 0]))
    rows = np.full((1, 4), 255)
    assert worst(beside) == (64770, 0) and worst(apart) == (32385, 0)
    assert saturating(rows, beside.astype(np.int64))[0, 0] == 32767
    assert saturating(rows, apart.astype(np.int64))[0, 0] == 64770
