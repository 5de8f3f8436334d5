"""A codec graph in the published 21-input form is driven by the same runtime: growing states, look-ahead, flush."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.decoder import CodecDecoder
from engines.manifest import CodecDecoder as CodecSpec
from engines.manifest import CodecState as StateSpec
from engines.onnx import Graph
from tests.codec.published import (
    AHEAD,
    DIM,
    ENTRIES,
    FILE,
    HEADS,
    KEPT,
    LAYERS,
    SAMPLES,
    WIDTH,
    WINDOW,
    Q,
    weights,
)


def spec() -> CodecSpec:
    """What a manifest says of such a graph: an axis of 0 starts empty and grows."""
    states = [
        StateSpec(f"{name}", f"next_{name}", (WIDTH, 0))
        for name in ("pre_conv_history", "latent_buffer", "conv_history")
    ]
    names = [f"{kind}_{layer}" for kind in ("key", "value") for layer in range(LAYERS)]
    states += [StateSpec(f"past_{name}", f"next_{name}", (HEADS, 0, DIM)) for name in names]
    return CodecSpec(FILE.name, "fp32", Q, ENTRIES, SAMPLES, 24_000, tuple(states), lookahead=AHEAD)


@pytest.fixture(scope="module")
def decoder() -> CodecDecoder:
    """The graph behind the runtime."""
    return CodecDecoder(spec(), Graph(FILE, threads=1, provider="cpu"))


def whole(codes: np.ndarray) -> np.ndarray:
    """The sound of all frames, computed at once."""
    w = weights()
    x = w["table"][codes + np.arange(Q) * ENTRIES].sum(axis=1).T
    padded = np.pad(x, ((0, 0), (2, 0)))
    x = np.stack([np.einsum("oik,ik->o", w["pre"], padded[:, t : t + 3]) for t in range(x.shape[1])], axis=1)
    for layer in range(LAYERS):
        sums = []
        for kind in "kv":
            total = np.pad(np.cumsum(w[f"{kind}{layer}"] @ x, axis=1), ((0, 0), (WINDOW, 0)))
            sums.append(total[:, WINDOW:] - total[:, :-WINDOW])
        x = x + np.tanh(sums[0]) * sums[1] * 0.1
    padded = np.pad(x, ((0, 0), (4, 0)))
    return np.concatenate([np.einsum("oik,ik->o", w["conv"], padded[:, t : t + 5]) for t in range(x.shape[1])])


def noise(frames: int, seed: int = 3) -> np.ndarray:
    """Codes of an talker."""
    return np.random.default_rng(seed).integers(0, ENTRIES, (frames, Q))


@settings(max_examples=40)
@given(frames=st.integers(1, 120), cuts=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_every_way_of_cutting_gives_the_whole_sound(decoder: CodecDecoder, frames: int, cuts: list[int]) -> None:
    """The samples that the graph holds back at the end are taken from the state."""
    codes = noise(frames)
    state, parts, at, turn = decoder.start(), [], 0, 0
    while at < frames:
        size = cuts[turn % len(cuts)]
        samples, state = decoder.step(codes[at : at + size], state)
        parts.append(samples)
        at, turn = at + size, turn + 1
        assert sum(map(len, parts)) == max(min(at, frames) - AHEAD, 0) * SAMPLES
    sound = np.concatenate([*parts, state.ahead])
    expected = whole(codes)
    assert sound.shape == expected.shape
    assert np.abs(sound - expected).max() <= 1e-4 * np.sqrt(np.mean(expected**2))


def test_states_grow_to_their_size_and_stay(decoder: CodecDecoder) -> None:
    """From nothing to two, four and 72 rows."""
    state = decoder.start()
    assert not any(tensor.size for tensor in state.tensors)
    _, state = decoder.step(noise(200), state)
    shapes = {s.input: t.shape for s, t in zip(spec().states, state.tensors, strict=True)}
    assert shapes["pre_conv_history"] == (WIDTH, 2)
    assert shapes["latent_buffer"] == shapes["conv_history"] == (WIDTH, AHEAD)
    assert {shapes[f"past_key_{i}"] for i in range(LAYERS)} == {(HEADS, KEPT, DIM)}
    _, after = decoder.step(noise(5), state)
    assert [tensor.shape for tensor in after.tensors] == [tensor.shape for tensor in state.tensors]
