"""Drawing a code from logits, in the official order: penalty → bans → temperature → top-k → top-p.

Source: QwenLM/Qwen3-TTS modeling_qwen3_tts.py:2044-2063 (what may be drawn), qwen3_tts_model.py:319-330 (the
numbers); the order is that of transformers' generate. A draw uses one uniform number of the session's own generator,
so it does not depend on who else is in the batch.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

MIN_NEW_TOKENS: Final = 2
"""Frames before the end of speech may be drawn."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How codes are drawn. ``greedy`` takes the likeliest code and ignores the rest but the penalty.

    Attributes:
        temperature, top_k, top_p: of codebook 0; ``top_k`` 0 for all.
        repetition_penalty: divides positive and multiplies negative logits of every code 0 drawn before in the piece.
        predictor_temperature, predictor_top_k, predictor_top_p: of the other codebooks, which have no penalty.

    Raises:
        ValueError: a number outside its range; the message names it.
    """

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0
    greedy: bool = False

    def __post_init__(self) -> None:
        for name in ("temperature", "predictor_temperature", "repetition_penalty"):
            if not 0 < getattr(self, name) <= 10:
                raise ValueError(f"{name}: {getattr(self, name):g} lies outside 0 (exclusive)…10")
        for name in ("top_p", "predictor_top_p"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name):g} lies outside 0 (exclusive)…1")
        for name in ("top_k", "predictor_top_k"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative")


def generator(seed: int, piece: int) -> np.random.Generator:
    """The random numbers of a session's ``piece``-th piece, a function of both: pieces are reproducible one by one."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, piece], dtype=np.uint64)))


def penalise(logits: Floats, seen: npt.NDArray[np.int64], penalty: float) -> Floats:
    """A copy of ``logits`` [V] with every index in ``seen`` (each once) made less likely."""
    out = logits.copy()
    if penalty != 1.0 and len(seen):
        picked = out[seen]
        out[seen] = np.where(picked < 0, picked * penalty, picked / penalty)
    return out


def draw(
    logits: Floats, random: np.random.Generator, *, temperature: float, top_k: int, top_p: float, greedy: bool
) -> int:
    """An index into ``logits`` [V]; −inf is never drawn. Not greedy: uses up exactly one number of ``random``."""
    if greedy:
        return int(logits.argmax())
    places: Indices = np.arange(len(logits))
    if 0 < top_k < len(logits):
        places = np.argpartition(logits, len(logits) - top_k)[len(logits) - top_k :]
    # Sorted by likelihood, ties by index: the draw is then a function of the logits alone.
    order: Indices = np.lexsort((places, -logits[places]))
    places = places[order]
    scores: Doubles = logits[places].astype(np.float64) / temperature
    weights: Doubles = np.exp(scores - scores[0])
    total: Doubles = weights.cumsum()
    if top_p < 1.0:
        # The smallest set whose mass reaches top_p; its first member always stays.
        total = total[: 1 + _place(total, top_p * float(total[-1]), "left")]
    place = _place(total, random.random() * float(total[-1]), "right")
    return int(places[min(place, len(total) - 1)])


def _place(ascending: Doubles, value: float, side: Literal["left", "right"]) -> int:
    return int(np.searchsorted(ascending, np.float64(value), side=side))
