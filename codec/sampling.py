"""Drawing a code from logits, in the official order: penalty → bans → temperature → top-k → top-p.

Source: QwenLM/Qwen3-TTS modeling_qwen3_tts.py:2044-2063 (what may be drawn), qwen3_tts_model.py:319-330 (the
numbers); the order is that of transformers' generate. A draw uses one uniform number of the session's own generator,
so it does not depend on who else is in the batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engines.manifest import CodeSampling

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


class Sampling(CodeSampling, frozen=True):
    """How a session's codes are drawn. ``greedy`` takes the likeliest code and ignores the rest but the penalty."""

    greedy: bool = False


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
    one = draws(logits[None], [random], temperature=temperature, top_k=top_k, top_p=top_p, greedy=greedy)
    return one[0]


def draws(
    logits: Floats,
    randoms: Sequence[np.random.Generator],
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    greedy: bool,
) -> list[int]:
    """``draw`` for each row of ``logits`` [N, V], each with its own generator."""
    if greedy:
        return logits.argmax(1).tolist()
    width = len(logits[0])
    places: Indices = np.tile(np.arange(width), (len(logits), 1))
    if 0 < top_k < width:
        places = np.argpartition(logits, width - top_k, axis=1)[:, width - top_k :]
    # Sorted by likelihood, ties by index: the draw is then a function of the logits alone.
    order: Indices = np.lexsort((places, -np.take_along_axis(logits, places, 1)), axis=1)
    places = np.take_along_axis(places, order, 1)
    scores: Doubles = np.take_along_axis(logits, places, 1).astype(np.float64) / temperature
    totals: Doubles = np.exp(scores - scores[:, :1]).cumsum(1)
    uniform: Doubles = np.array([random.random() for random in randoms])
    last = np.full(len(totals), totals.shape[1] - 1)
    if top_p < 1.0:
        # The smallest set whose mass reaches top_p; its first member always stays.
        last = np.minimum((totals < top_p * totals[:, -1:]).sum(1), last)
    everyone = np.arange(len(totals))
    mass: Doubles = totals[everyone, last]
    place = np.minimum((totals <= (uniform * mass)[:, None]).sum(1), last)
    return places[everyone, place].tolist()
