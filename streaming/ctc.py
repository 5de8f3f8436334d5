"""What the CTC head of the encoder tells: where each token of a text lies in the audio, how probable a text is, and
where a few tokens are spotted among others.

Contract: everything here is a pure function of the head's log-probabilities, except :class:`CtcRows`, which holds those
of a clip. The head judges tokens by the sound alone. It sees neither the context nor the text before a token, so it is
an opinion independent of the decoder's.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where each of N tokens lies in the audio.

    Attributes:
        first, last: int64 [N], first and last encoder row of each token; ``last[i] < first[i + 1]``.
        score: float64 [N], mean log-probability of the token on its rows.
    """

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in the audio where a short sequence of tokens was spotted among others.

    Attributes:
        first, last: the first and the last encoder row of the sequence.
        place: how many tokens the head's best path has before row ``first``.
        score: log-probability (natural) of the sequence on those rows less that of the best path there, divided by the
            number of its tokens; at most 0.
    """

    first: int
    last: int
    place: int
    score: float


class CtcRows:
    """CTC log-probabilities of a growing clip: the rows of its closed windows, and those of its tail so far."""

    def __init__(self, blank: int | None) -> None:
        """``blank``: index of the blank label, or None for a model without a CTC head; nothing is known then."""
        self.blank = blank
        self._closed: list[npt.NDArray[np.float32]] = []
        self.log_probs: npt.NDArray[np.float32] | None = None
        """float32 [rows, vocabulary + 1] of the clip as :meth:`end` last set it; None where there are no rows."""

    def append(self, rows: npt.NDArray[np.float32] | None) -> None:
        """Append the rows of a window that closed, float32 [rows, vocabulary + 1]."""
        if rows is not None:
            self._closed.append(rows)

    def end(self, rows: npt.NDArray[np.float32] | None) -> None:
        """Set ``log_probs`` to the rows of the closed windows and then ``rows``, those of the clip's tail."""
        parts = [*self._closed, *([] if rows is None else [rows])]
        self.log_probs = np.concatenate(parts) if parts else None

    def path(self) -> list[int]:
        """The tokens on the head's best path through the clip; none where it is not known."""
        if self.log_probs is None or self.blank is None:
            return []
        best = self.log_probs.argmax(axis=1)
        changes = np.flatnonzero(np.diff(best, prepend=self.blank))
        return [token for token in best[changes].tolist() if token != self.blank]

    def word_scores(self, tokens: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[float]:
        """How sure the head is of each word of the clip's text.

        Args:
            tokens: the clip's text.
            spans: (first token, one past the last) of each word.

        Returns:
            For each word the mean log-probability of its tokens where the alignment puts them; -inf for every word if
            there is no head or the text cannot be aligned.

        Raises:
            ValueError: as ``align``.
        """
        rows = self.log_probs
        alignment = None if rows is None or self.blank is None else align(rows, tokens, self.blank)
        return [-inf if alignment is None else float(alignment.score[a:b].mean()) for a, b in spans]


def align(log_probs: npt.NDArray[np.float32], tokens: Sequence[int], blank: int) -> Alignment | None:
    """The most probable CTC path of ``tokens`` through ``log_probs``.

    Args:
        log_probs: float32 [rows, vocabulary + 1], natural logarithms; -inf is allowed.
        tokens: the text, without blanks.
        blank: index of the blank.

    Returns:
        The alignment, or None if no path exists: there are more tokens than rows (two equal neighbours need one row
        more, for the blank between them), or every path has probability 0.

    Raises:
        ValueError: ``log_probs`` is not a matrix with rows, or a token is the blank or outside the vocabulary.
    """
    _check(log_probs, tokens, blank)
    rows, count = len(log_probs), len(tokens)
    repeated = np.array([a == b for a, b in pairwise(tokens)], dtype=bool)
    if count + int(repeated.sum()) > rows:
        return None
    if not count:
        return Alignment(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    # The states of a path are blank, token 0, blank, token 1, …, blank. From row to row a path stays in its state,
    # moves on by one, or skips a blank, but not a blank between two equal tokens.
    states = np.full(2 * count + 1, blank, np.intp)
    states[1::2] = tokens
    jump = np.full(2 * count + 1, -np.inf)
    jump[3::2][~repeated] = 0
    emission = log_probs[:, states].astype(np.float64)
    # Viterbi: the best log-probability of a path that ends in each state. Two columns of -inf in front stand for
    # states before the first, so that every state has two predecessors.
    best = np.full((rows, 2 * count + 3), -np.inf)
    best[0, 2:4] = emission[0, :2]
    step, over = np.empty(2 * count + 1), np.empty(2 * count + 1)
    for row in range(1, rows):
        before = best[row - 1]
        np.maximum(before[2:], before[1:-1], out=step)
        np.add(before[:-2], jump, out=over)
        np.maximum(step, over, out=step)
        np.add(step, emission[row], out=best[row, 2:])

    path = np.empty(rows, np.intp)
    state = 2 * count - (best[-1, -2] > best[-1, -1])
    if best[-1, state + 2] == -np.inf:
        return None
    path[-1] = state
    for row in range(rows - 2, -1, -1):
        stay, on, over_blank = best[row, state + 2], best[row, state + 1], best[row, state] + jump[state]
        if on > stay or over_blank > stay:
            state -= 1 if on >= over_blank else 2
        path[row] = state

    token_states = np.arange(1, 2 * count, 2)
    first = np.searchsorted(path, token_states, side="left")
    after = np.searchsorted(path, token_states, side="right")
    sums = np.concatenate([[0.0], np.cumsum(emission[np.arange(rows), path])])
    return Alignment(first.astype(np.int64), after.astype(np.int64) - 1, (sums[after] - sums[first]) / (after - first))


def _check(log_probs: npt.NDArray[np.float32], tokens: Collection[int], blank: int) -> None:
    if log_probs.ndim != 2 or not len(log_probs):
        raise ValueError(f"log_probs: [rows, vocabulary + 1] expected, shape {log_probs.shape}")
    for token in (*tokens, blank):
        if not 0 <= token < log_probs.shape[1]:
            raise ValueError(f"tokens: {token} lies outside 0…{log_probs.shape[1] - 1}")
    if blank in tokens:
        raise ValueError(f"tokens: {blank} is the blank")


def log_likelihoods(
    log_probs: npt.NDArray[np.float32], texts: Sequence[Sequence[int]], blank: int
) -> npt.NDArray[np.float64]:
    """The natural logarithm of each text's CTC probability, which sums all paths that spell the text.

    Args:
        log_probs: float32 [rows, vocabulary + 1], natural logarithms, at least one row; -inf is allowed.
        texts: the tokens of each text, without blanks.
        blank: index of the blank.

    Returns:
        float64 [texts]; -inf for a text that no path spells, such as one too long for the rows.

    Raises:
        ValueError: as ``align``.
    """
    _check(log_probs, {token for text in texts for token in text}, blank)

    # The forward algorithm, for all texts at once. The states are those of ``align``; a text shorter than the longest
    # has states beyond its own, which are never entered. Probabilities are rescaled row by row against underflow.
    lengths = np.array([len(text) for text in texts], dtype=np.intp)
    count = 2 * int(lengths.max(initial=0)) + 1
    states = np.full((len(texts), count), blank, np.intp)
    for i, text in enumerate(texts):
        states[i, 1 : 2 * len(text) : 2] = text
    exists = np.arange(count) <= 2 * lengths[:, None]
    jumps = np.zeros((len(texts), count))
    jumps[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]  # A blank between two equal tokens cannot be skipped.

    peaks = log_probs.max(axis=1, keepdims=True).astype(np.float64)
    with np.errstate(invalid="ignore"):  # A row may be -inf throughout.
        probabilities = np.nan_to_num(np.exp(log_probs - peaks), nan=0.0)
    reached = np.zeros((len(texts), count + 2))  # Two columns in front stand for states before the first.
    reached[:, 2:4] = (probabilities[0][states] * exists)[:, :2]
    scales = np.zeros(len(texts))
    for row in probabilities[1:]:
        step = reached[:, 2:] + reached[:, 1:-1]
        step += reached[:, :-2] * jumps
        step *= row[states]
        step *= exists
        most = step.max(axis=1)
        most[most == 0] = 1  # No path reaches this row: its zeros stay zeros.
        scales += np.log(most)
        np.divide(step, most[:, None], out=reached[:, 2:])
    which = np.arange(len(texts))
    ends = reached[which, 2 * lengths + 2] + reached[which, 2 * lengths + 1]
    with np.errstate(divide="ignore"):
        return np.log(ends) + scales + float(peaks.sum())


def spots(
    log_probs: npt.NDArray[np.float32], texts: Sequence[Sequence[int]], blank: int, least: float
) -> list[list[Spot]]:
    """Spot each of ``texts`` wherever it scores at least ``least`` (:class:`Spot`).

    Args:
        log_probs: float32 [rows, vocabulary + 1], natural logarithms; -inf is allowed.
        texts: the tokens of each text, without blanks, at least one.
        blank: index of the blank.
        least: the least score of a spot, at most 0.

    Returns:
        For each text its spots in the order of their rows. They do not overlap: of those that would, the one with the
        best score is kept.

    Raises:
        ValueError: as ``align``.
    """
    _check(log_probs, {token for text in texts for token in text}, blank)
    peaks = log_probs.max(axis=1, keepdims=True)
    below = log_probs - np.where(np.isfinite(peaks), peaks, 0)
    found: list[list[Spot]] = [[] for _ in texts]
    # The best score that each token can add: a text whose sum of these is too low need not be searched for.
    most = below.max(axis=0)
    some = [i for i, text in enumerate(texts) if most[list(text)].mean() >= least]
    if not some:
        return found
    best = log_probs.argmax(axis=1)
    begins = best != blank
    begins[1:] &= best[1:] != best[:-1]
    before = np.concatenate([[0], np.cumsum(begins)])
    for i, scores, firsts in zip(some, *_ends(below, [texts[i] for i in some], blank), strict=True):
        for last in np.argsort(-scores, kind="stable"):
            first, score = int(firsts[last]), float(scores[last])
            if score < least:
                break
            if all(first > spot.last or last < spot.first for spot in found[i]):
                found[i].append(Spot(first, int(last), int(before[first]), score))
        found[i].sort(key=lambda spot: spot.first)
    return found


def _ends(
    below: npt.NDArray[np.float32], texts: Sequence[Sequence[int]], blank: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """For each text and each row: the best path of the text that ends in that row, wherever it begins.

    Args:
        below: float32 [rows, vocabulary + 1], log-probabilities less that of the row's best token.

    Returns:
        The path's score, divided by the number of tokens, and its first row, both [texts, rows].
    """
    # The states of all texts stand one after another: token 0, blank, token 1, … of the first, then of the next.
    sizes = np.array([2 * len(text) - 1 for text in texts], np.intp)
    ends = sizes.cumsum() - 1
    begins = ends - sizes + 1
    states = np.full(int(sizes.sum()), blank, np.intp)
    jump = np.full(len(states), -np.inf, np.float32)  # 0 where a blank may be skipped: not between two equal tokens.
    for begin, text in zip(begins, texts, strict=True):
        states[begin : begin + 2 * len(text) : 2] = text
        jump[begin + 2 : begin + 2 * len(text) : 2][np.array([a != b for a, b in pairwise(text)], bool)] = 0
    # Two entries in front stand for states before the first.
    best, first = np.full(len(states) + 2, -np.inf, np.float32), np.zeros(len(states) + 2, np.intp)
    scores = np.empty((len(texts), len(below)), np.float32)
    firsts = np.empty(scores.shape, np.intp)
    for row, emission in enumerate(below[:, states]):
        step, begun, over = best[1:-1].copy(), first[1:-1].copy(), best[:-2] + jump
        step[begins], begun[begins] = 0, row
        further = over > step
        step, begun = np.where(further, over, step), np.where(further, first[:-2], begun)
        moved = step > best[2:]
        first[2:] = np.where(moved, begun, first[2:])
        best[2:] = np.where(moved, step, best[2:]) + emission
        scores[:, row], firsts[:, row] = best[ends + 2], first[ends + 2]
    return scores / ((sizes + 1) / 2)[:, None].astype(np.float32), firsts
