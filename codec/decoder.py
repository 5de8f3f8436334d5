"""The codec decoder: codes in, samples out, and everything that must pass between two calls in one value.

The graph's contract (docs/export.md): ``codes`` int64 [B, N, Q] padded on the right with −1, ``last`` [1] and every
state in; ``wave`` [B, N · frame_samples], ``valid_samples`` [B] and every next state out. Output is cut by
``valid_samples``. Names and shapes come from the manifest, so a graph made elsewhere is driven the same way, also one
whose states grow from length 0 and which holds frames back (``lookahead``): what it returns beyond ``valid_samples``
is then kept in the state, because a causal decoder has already got it right, and given out at the end.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engines.manifest import CodecDecoder as CodecSpec
from engines.manifest import ManifestError
from engines.onnx import Graph

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]

PADDING: Final = -1
CALL_FRAMES: Final = (1, 2, 4, 8, 12)
"""Frames of a call where shapes must be fixed; others are padded."""

_NOTHING: Final = np.empty(0, np.float32)
_ZERO, _SPARE, _FIRST = 0, 1, 2
"""The slot of the state before the first frame, that of padding, and the first of all others."""


class Slot:
    """A place for one stream's state where the graph runs. It is given back when nobody has it any more."""

    def __init__(self, number: int, free: list[int]) -> None:
        self.number, self._free = number, free

    def __del__(self) -> None:
        self._free.append(self.number)


@dataclass(frozen=True, slots=True)
class CodecState:
    """What one stream carries from call to call. Immutable: an old value can be kept and continued from again.

    ``tensors``: one array for each of the manifest's ``codec.states``, in that order, without the batch axis:

    ===================  ===========================  =============================================================
    input                shape (official / pocket)    holds
    ===================  ===========================  =============================================================
    pre_conv_h           [512, 2] / [128, 2]          last frames out of the codebooks
    conv_h_0 … 19        [channels, tail]             inputs before the next of each later convolution; 0 = padding
    past_key_i, value_i  [heads, 71, 64]              rows of the attention window, keys not rotated
    past_valid           [71]                         1 where such a row is real
    ===================  ===========================  =============================================================

    float32, or float16 where the graph takes that, all of full size and zero at the start; the size never changes
    (graphs made elsewhere may grow theirs).
    ``slot`` is where they lie instead, if a card keeps them; None is the state before the first frame.
    ``ahead``: samples beyond ``valid_samples`` of the last call, given out at the end; empty without look-ahead.
    """

    tensors: tuple[npt.NDArray[np.floating[Any]], ...]
    ahead: Floats = field(default_factory=lambda: _NOTHING)
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class Decode:
    """Work for one stream: ``codes`` int64 [N ≥ 1, Q], and the state before them."""

    codes: Codes
    state: CodecState


class CodecDecoder:
    """Runs the graph; holds no stream's state. Not thread-safe: the lane calls in, one call at a time."""

    def __init__(self, spec: CodecSpec, graph: Graph, *, kept: int = 0) -> None:
        """``kept``: how many states are kept where the graph runs; with 0, or where it has no slots, states travel.

        Raises:
            ManifestError: the graph lacks an input or output that the manifest names.
        """
        self.spec, self._graph = spec, graph
        inputs = {spec.codes, *(state.input for state in spec.states)} | ({spec.last} if spec.last else set[str]())
        inputs |= set(spec.slots or ())
        outputs = {spec.wave, spec.samples, *(state.output for state in spec.states)}
        if inputs != set(graph.inputs) or not outputs <= set(graph.outputs):
            odd = sorted(inputs ^ set(graph.inputs) | outputs - set(graph.outputs))
            raise ManifestError(f"{graph.path}: graph and manifest differ in {', '.join(odd)}")
        self._places = {name: place for place, name in enumerate(graph.outputs)}
        self._static = all(size > 0 for state in spec.states for size in state.shape)
        self._kept = kept
        self._free: list[int] | None = None
        if kept and spec.slots and self._static:
            provider = graph.provider
            self.step(np.zeros((1, spec.codebooks), np.int64), self.start())
            if graph.provider == provider:  # Else the card could not run it, and the processor does.
                self._free = list(range(_FIRST, _FIRST + kept))
                for state in spec.states:
                    graph.keep(state.input, state.output, (_FIRST + kept, *state.shape))

    def start(self) -> CodecState:
        """The state before the first frame."""
        half = self._graph.is_half
        if self._free is not None:
            return CodecState(())
        return CodecState(
            tuple(np.zeros(s.shape, np.float16 if half(s.input) else np.float32) for s in self.spec.states)
        )

    def step(self, codes: Codes, state: CodecState) -> tuple[Floats, CodecState]:
        """Decode frames of one stream.

        Args:
            codes: int64 [N ≥ 1, Q], each 0 … entries − 1.

        Returns:
            samples: float32 [n], n = N · frame_samples without look-ahead; and the next state.
        """
        return self._run([Decode(codes, state)])[0]

    def steps(self, work: Sequence[Decode]) -> list[tuple[Floats, CodecState]]:
        """Decode frames of many streams: one call where the graph's states are of fixed size."""
        if not self._static:
            return [self.step(item.codes, item.state) for item in work]
        results: list[tuple[Floats, CodecState]] = []
        most = self._graph.batches[-1]
        for first in range(0, len(work), most):
            results += self._run(work[first : first + most])
        return results

    def warm(self) -> None:
        """Run one call of every usual size; where shapes must be fixed, of every one that there will be. Where few
        states are kept, no call is large."""
        batches = self._graph.batches if self._graph.fixed and self._static else (1,)
        most = max(batches) if self._free is None else self._kept
        for batch in (size for size in batches if size <= most):
            for frames in CALL_FRAMES:
                self._run([Decode(np.zeros((frames, self.spec.codebooks), np.int64), self.start())] * batch)

    def _run(self, work: Sequence[Decode]) -> list[tuple[Floats, CodecState]]:
        spec = self.spec
        frames = max(len(item.codes) for item in work)
        batch = len(work)
        if self._graph.fixed:
            batch = next(size for size in self._graph.batches if size >= batch)
            frames = next((size for size in CALL_FRAMES if size >= frames), frames)
        codes = np.full((batch, frames, spec.codebooks), PADDING, np.int64)
        for row, item in zip(codes, work, strict=False):
            _check(item.codes, spec)
            row[: len(item.codes)] = item.codes
        feeds: dict[str, npt.NDArray[Any]] = {spec.codes: codes}
        if spec.last is not None:
            feeds[spec.last] = np.zeros(1, np.float32)
        if self._free is not None:
            return self._in_slots(work, feeds, self._free)
        if spec.slots is not None:
            feeds |= dict.fromkeys(spec.slots, np.arange(batch))
        for place, state in enumerate(spec.states):
            tensors = [item.state.tensors[place] for item in work]
            tensors += [np.zeros_like(tensors[0])] * (batch - len(work))
            feeds[state.input] = np.stack(tensors) if batch > 1 else tensors[0][None]
        outputs = self._graph.run(feeds, half=True)  # States stay in the form in which the graph takes them back.
        nexts = [outputs[self._places[state.output]] for state in spec.states]
        results: list[tuple[Floats, CodecState]] = []
        wave, valid = outputs[self._places[spec.wave]], outputs[self._places[spec.samples]]
        for i, (samples, ahead) in enumerate(self._cut(wave, valid, len(work))):
            # A copy of its own: a view would keep the whole batch alive.
            tensors = tuple(tensor[i].copy() if batch > 1 else tensor[i] for tensor in nexts)
            results.append((samples, CodecState(tensors, ahead)))
        return results

    def _in_slots(
        self, work: Sequence[Decode], feeds: dict[str, npt.NDArray[Any]], free: list[int]
    ) -> list[tuple[Floats, CodecState]]:
        """``_run`` where states are kept. Each goes on in a slot of its own, since the one before may be wanted
        again."""
        if len(free) < len(work):
            gc.collect()  # Slots of streams that ended with an error may hang in their tracebacks.
        if len(free) < len(work):
            raise RuntimeError(f"all {self._kept} slots for states of the codec are taken")
        slots = [Slot(free.pop(), free) for _ in work]
        padding = len(feeds[self.spec.codes]) - len(work)
        read, write = self.spec.slots or ("", "")
        begin = [_ZERO if item.state.slot is None else item.state.slot.number for item in work]
        feeds[read] = np.array([*begin, *[_ZERO] * padding])
        feeds[write] = np.array([*(slot.number for slot in slots), *[_SPARE] * padding])
        wave, valid = self._graph.run(feeds, (self.spec.wave, self.spec.samples), half=True)
        return [
            (samples, CodecState((), ahead, slot))
            for slot, (samples, ahead) in zip(slots, self._cut(wave, valid, len(work)), strict=True)
        ]

    def _cut(self, wave: npt.NDArray[Any], valid: npt.NDArray[Any], count: int) -> list[tuple[Floats, Floats]]:
        """The valid samples of each of ``count`` streams, and those that came ahead of their time."""
        samples: Floats = wave.reshape(len(wave), -1).astype(np.float32, copy=False)
        ends: list[int] = np.broadcast_to(valid.reshape(-1), (len(wave),)).tolist()
        return [
            (row[:end].copy(), row[end:].copy() if self.spec.lookahead else _NOTHING)
            for row, end in zip(samples[:count], ends, strict=False)
        ]


def _check(codes: Codes, spec: CodecSpec) -> None:
    """ValueError unless ``codes`` are frames of this codec."""
    if codes.ndim != 2 or not len(codes) or codes.shape[1] != spec.codebooks:
        raise ValueError(f"codes: shape {codes.shape}, expected [frames ≥ 1, {spec.codebooks}]")
    if int(codes.min()) < 0 or int(codes.max()) >= spec.entries:
        raise ValueError(f"codes: {codes.min()}…{codes.max()} outside 0…{spec.entries - 1}")
