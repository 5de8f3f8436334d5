"""The talker: codebook 0, one frame a step.

Its input is the row of the frame before it plus one row of text; its logits give code 0 of the next frame or the end
of speech, and its hidden state (after the last norm) what the predictor starts from. Steps of many pieces are one
llama.cpp call; what a piece draws depends on its own logits, codes and random numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from codec.sampling import Sampling, draws, penalise
from engines.gguf import Decoder, Rows

Floats = npt.NDArray[np.float32]


@dataclass(slots=True)
class TalkerState:
    """What the talker keeps of one piece from frame to frame, but for the KV cache."""

    sequence: int
    position: int
    """How many rows of the piece stand in the cache."""
    row: Floats
    """The row of the last frame, float32 [width], which the next step starts from; C(bos) before the first."""
    sampling: Sampling
    random: np.random.Generator
    first_codes: list[int] = field(default_factory=list[int])
    """Code 0 of each frame so far, in order."""


@dataclass(frozen=True, slots=True)
class TalkerStep:
    """One step: ``text`` float32 [width] is added to the talker's row; the end may be drawn only if ``may_end``."""

    talker: TalkerState
    text: Floats
    may_end: bool


@dataclass(frozen=True, slots=True)
class TalkerCode:
    """What a step drew: code 0, or None for the end; and the hidden state, float32 [width]."""

    code: int | None
    hidden: Floats


class Talker:
    """Not thread-safe: the lane calls in."""

    def __init__(self, decoder: Decoder, *, entries: int, end: int, min_frames: int) -> None:
        self._decoder, self._entries, self._end, self._min_frames = decoder, entries, end, min_frames

    def prefill(self, sequence: int, start: int, rows: Floats) -> None:
        """Put prompt rows into the cache at ``start``; what stood there is forgotten."""
        self._decoder.outputs([Rows(sequence, start, rows, len(rows))])

    def step(self, steps: Sequence[TalkerStep]) -> list[TalkerCode]:
        """Advance every talker by one row and draw its next code."""
        items = [Rows(s.talker.sequence, s.talker.position, (s.talker.row + s.text)[None], 0) for s in steps]
        outputs = self._decoder.outputs(items)
        scores = [self._scores(s, o.logits[0]) for s, o in zip(steps, outputs, strict=True)]
        return [
            self._drawn(s.talker, code, o.hidden[0])
            for s, code, o in zip(steps, _codes(steps, scores), outputs, strict=True)
        ]

    def _scores(self, step: TalkerStep, logits: Floats) -> Floats:
        """What the next code is drawn from."""
        talker, sampling = step.talker, step.talker.sampling
        seen = np.array(sorted(set(talker.first_codes)), dtype=np.int64)
        scores = penalise(logits, seen, sampling.repetition_penalty)
        end = scores[self._end]
        # Control ids are never spoken; the end only where the official code allows it.
        scores[self._entries :] = -np.inf
        if step.may_end and len(talker.first_codes) >= self._min_frames:
            scores[self._end] = end
        return scores

    def _drawn(self, talker: TalkerState, code: int, hidden: Floats) -> TalkerCode:
        talker.position += 1
        if code == self._end:
            return TalkerCode(None, hidden)
        talker.first_codes.append(code)
        return TalkerCode(code, hidden)


def _codes(steps: Sequence[TalkerStep], scores: Sequence[Floats]) -> list[int]:
    """Draw the code of each step. Those that are drawn alike are drawn at once, with the same result."""
    codes = [0] * len(steps)
    alike: dict[Sampling, list[int]] = {}
    for place, step in enumerate(steps):
        alike.setdefault(step.talker.sampling, []).append(place)
    for sampling, places in alike.items():
        drawn = draws(
            np.stack([scores[place] for place in places]),
            [steps[place].talker.random for place in places],
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            greedy=sampling.greedy,
        )
        for place, code in zip(places, drawn, strict=True):
            codes[place] = code
    return codes
