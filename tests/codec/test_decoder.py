"""The codec decoder of the embedded model: any cutting gives one sound, and the state never changes its size."""

import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.decoder import CodecDecoder, Decode
from engines import manifest as manifests
from engines.onnx import Graph
from engines.store import find

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tts"
GOLDEN_SPEC = manifests.read_tts(GOLDEN / "model").codec
FRAMES = 160
"""The attention window of 72 turns twice."""


@pytest.fixture(scope="module")
def decoder(tts_directory: Path) -> CodecDecoder:
    """The graph behind the runtime."""
    spec = manifests.read_tts(tts_directory).codec
    return CodecDecoder(spec, Graph(tts_directory / spec.file, threads=1, provider="cpu"))


def codes(frames: int, place: int = 5) -> npt.NDArray[np.int64]:
    """Codes of speech, from one of many places in the recordings that the model comes with; the second half at random:
    no speech, and to such codes the order of float32 sums matters most.
    """
    with np.load(find("pocket-tts-en") / "held-out.npz") as file:
        speech = file["codes"][41 * place :][: frames - frames // 2].astype(np.int64)
    noise = np.random.default_rng(place).integers(0, 1024, (frames // 2, speech.shape[1]))
    return np.concatenate((speech, noise))


@pytest.fixture(scope="module")
def sound(decoder: CodecDecoder) -> npt.NDArray[np.float32]:
    """All frames in one call."""
    return decoder.step(codes(FRAMES), decoder.start())[0]


def same(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> None:
    """Equal to 1e-5 of the RMS at the worst sample."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-5 * np.sqrt(np.mean(np.square(expected, dtype=np.float64)))


@settings(max_examples=5)
@given(cuts=st.lists(st.integers(1, 64), min_size=1, max_size=8))
def test_chunks_make_the_sound_of_one_shot(
    decoder: CodecDecoder, sound: npt.NDArray[np.float32], cuts: list[int]
) -> None:
    """However frames are cut into calls: 1920 samples a frame, the same samples, a state as large as it began."""
    assert np.sqrt(np.mean(sound**2)) > 0.01
    all_codes, state = codes(FRAMES), decoder.start()
    parts, at, turn = [], 0, 0
    while at < FRAMES:
        part = all_codes[at : at + cuts[turn % len(cuts)]]
        samples, state = decoder.step(part, state)
        assert len(samples) == len(part) * decoder.spec.frame_samples
        assert [tensor.shape for tensor in state.tensors] == [s.shape for s in decoder.spec.states]
        parts.append(samples)
        at, turn = at + len(part), turn + 1
    same(np.concatenate(parts), sound)
    assert len(state.ahead) == 0


@settings(max_examples=5)
@given(lengths=st.lists(st.integers(1, 24), min_size=2, max_size=5))
def test_padding_and_neighbours_change_nothing(decoder: CodecDecoder, lengths: list[int]) -> None:
    """Streams of different lengths in one call, padded with −1: each gets what it gets alone, twice in a row."""
    streams = [codes(2 * n, place=i) for i, n in enumerate(lengths)]
    states = [decoder.start() for _ in streams]
    found: list[list[npt.NDArray[np.float32]]] = [[] for _ in streams]
    for half in (0, 1):
        work = [
            Decode(stream[half * n : (half + 1) * n], state)
            for stream, n, state in zip(streams, lengths, states, strict=True)
        ]
        for i, (samples, state) in enumerate(decoder.steps(work)):
            found[i].append(samples)
            states[i] = state
    for stream, parts in zip(streams, found, strict=True):
        same(np.concatenate(parts), decoder.step(stream, decoder.start())[0])


@pytest.mark.parametrize("frames", [1, 3, 5, 11, 30])
def test_fixed_shapes_change_nothing(tts_directory: Path, decoder: CodecDecoder, frames: int) -> None:
    """Where every shape is compiled once (DirectML), frames and batch are padded: the same samples and state."""
    spec = decoder.spec
    graph = Graph(tts_directory / spec.file, threads=1, provider="cpu")
    graph.fixed = True
    fixed = CodecDecoder(spec, graph)
    work = [Decode(codes(frames, place=i), decoder.start()) for i in range(3)]
    for (samples, state), (expected, after) in zip(fixed.steps(work), decoder.steps(work), strict=True):
        same(samples, expected)
        for found, wanted in zip(state.tensors, after.tensors, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.fixture(scope="module")
def travelling() -> CodecDecoder:
    """The codec of the golden model, as it is exported for a processor."""
    return CodecDecoder(GOLDEN_SPEC, Graph(GOLDEN / "model" / GOLDEN_SPEC.file, threads=1, provider="cpu"))


@pytest.fixture(scope="module")
def in_slots(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CodecDecoder]:
    """Loads the same codec with states in slots, of which so many stay where the graph runs. With ``fixed`` its shapes
    are fixed, as on a card."""
    spec = msgspec.structs.replace(GOLDEN_SPEC, slots=("from_slots", "to_slots"))
    path = tmp_path_factory.mktemp("slots") / "slots.onnx"
    path.write_bytes(lzma.decompress((GOLDEN / "slots.onnx.xz").read_bytes()))
    shutil.copy(GOLDEN / "model" / "codec.weights", path.parent)

    def load(kept: int, *, fixed: bool = False) -> CodecDecoder:
        graph = Graph(path, threads=1, provider="cpu")
        graph.fixed = fixed
        return CodecDecoder(spec, graph, kept=kept)

    return load


@pytest.mark.parametrize("kept", [0, 7])
@settings(max_examples=10)
@given(calls=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=3), max_size=8))
def test_states_in_slots_are_those_that_travel(
    travelling: CodecDecoder,
    in_slots: Callable[..., CodecDecoder],
    kept: int,
    calls: list[list[tuple[int, int]]],
) -> None:
    """Whatever streams share a call, and whether slots stay where the graph runs or are stacked for each call: the
    same samples, bit by bit. No more slots are taken than there are states that somebody has."""
    slots, entries = in_slots(kept), GOLDEN_SPEC.entries
    streams = [(travelling.start(), slots.start()) for _ in range(3)]
    random = np.random.default_rng(len(calls))
    for call in calls:
        length, places = call[0][1], list(dict.fromkeys(place for place, _ in call))
        frames = [random.integers(0, entries, (length, GOLDEN_SPEC.codebooks)) for _ in places]
        old = travelling.steps([Decode(f, streams[p][0]) for f, p in zip(frames, places, strict=True)])
        new = slots.steps([Decode(f, streams[p][1]) for f, p in zip(frames, places, strict=True)])
        for place, (expected, before), (samples, after) in zip(places, old, new, strict=True):
            np.testing.assert_array_equal(samples, expected)
            streams[place] = before, after


def test_few_slots_are_warmed_in_small_batches(in_slots: Callable[..., CodecDecoder]) -> None:
    """A daemon for four voices has fewer slots than the largest batch, and did not start."""
    slots = in_slots(5, fixed=True)
    slots.warm()
    # All of them are free again.
    _ = [slots.step(np.zeros((1, GOLDEN_SPEC.codebooks), np.int64), slots.start()) for _ in range(5)]


def test_a_slot_is_free_once_nobody_has_its_state(in_slots: Callable[..., CodecDecoder]) -> None:
    """A state can be continued from twice while somebody has it; afterwards its slot serves another. Where all are
    taken, the error says so."""
    slots = in_slots(4)
    frames = np.ones((2, GOLDEN_SPEC.codebooks), np.int64)
    for _ in range(10):
        _, state = slots.step(frames, slots.start())
        first, after = slots.step(2 * frames, state)
        again, _ = slots.step(2 * frames, state)
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(slots.step(2 * frames, after)[0], first)
    with pytest.raises(RuntimeError, match="all 4 slots"):
        _ = [slots.step(frames, slots.start()) for _ in range(5)]


def test_a_state_can_be_continued_from_twice(decoder: CodecDecoder) -> None:
    """A step changes no state that it was given."""
    _, state = decoder.step(codes(9), decoder.start())
    before = [tensor.copy() for tensor in state.tensors]
    first, _ = decoder.step(codes(3, place=8), state)
    again, _ = decoder.step(codes(3, place=8), state)
    np.testing.assert_array_equal(first, again)
    for tensor, copy in zip(state.tensors, before, strict=True):
        np.testing.assert_array_equal(tensor, copy)


def test_every_part_of_the_state_is_heard(decoder: CodecDecoder) -> None:
    """Another value of any one tensor of the state changes the sound: none is carried for nothing."""
    all_codes = codes(40)
    _, state = decoder.step(all_codes[:30], decoder.start())
    expected, _ = decoder.step(all_codes[30:], state)
    for place, spec in enumerate(decoder.spec.states):
        tensors = list(state.tensors)
        noise = np.random.default_rng(place).standard_normal(spec.shape).astype(np.float32)
        tensors[place] = np.zeros_like(noise) if spec.input == "past_valid" else tensors[place] + 10 * noise
        found, _ = decoder.step(all_codes[30:], type(state)(tuple(tensors)))
        assert np.abs(found - expected).max() > 1e-5, spec.input


def test_what_is_no_frame_is_refused(decoder: CodecDecoder) -> None:
    """No frames, another number of codebooks, a code out of range."""
    state, spec = decoder.start(), decoder.spec
    for bad in (
        np.zeros((0, spec.codebooks), np.int64),
        np.zeros((2, spec.codebooks + 1), np.int64),
        np.full((1, spec.codebooks), spec.entries, np.int64),
        np.full((1, spec.codebooks), -1, np.int64),
    ):
        with pytest.raises(ValueError, match="^codes: "):
            decoder.step(bad, state)
