"""Word times: where the encoder's CTC head heard each token of a text that the decoder wrote.

Contract: pure functions. ``align`` finds the most probable path of a known token sequence through the rows' CTC
log-probabilities (Viterbi over the sequence with blanks in between); ``word_times`` turns the rows of each word's
tokens into seconds, and ``word_scores`` says how sure the head is of each word. Where a text cannot be aligned,
``share`` gives its words the segment's time, to be marked ``approximate``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.encoder import ROW_FRAMES

SPIKE_DELAY: Final = 0.065
"""Seconds by which a CTC head's spike comes after the beginning of its word: the signed median over 200 synthetic
utterances whose word starts are known (``hearsay bench words tests/synthetic``)."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Where N tokens were heard.

    Attributes:
        first, last: int64 [N], first and last row of each token; ``last[i] < first[i + 1]``.
        score: float64 [N], mean log-probability of the token on its rows.
    """

    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    score: npt.NDArray[np.float64]


def align(log_probs: npt.NDArray[np.float32], tokens: Sequence[int], blank: int) -> Alignment | None:
    """The most probable CTC path of ``tokens`` through ``log_probs``.

    Args:
        log_probs: float32 [rows, vocabulary + 1], natural logarithms; -inf is allowed.
        tokens: the text, without blanks.
        blank: index of the blank.

    Returns:
        None where no path exists: more tokens (equal neighbours count one more, for the blank between them) than rows,
        or every path has probability 0.

    Raises:
        ValueError: ``log_probs`` is not a matrix, or a token is the blank or outside the vocabulary.
    """
    if log_probs.ndim != 2:
        raise ValueError(f"log_probs: [rows, vocabulary + 1] expected, shape {log_probs.shape}")
    rows, width = log_probs.shape
    for token in (*tokens, blank):
        if not 0 <= token < width:
            raise ValueError(f"tokens: {token} lies outside 0…{width - 1}")
    if blank in tokens:
        raise ValueError(f"tokens: {blank} is the blank")
    count = len(tokens)
    repeated = np.array([a == b for a, b in pairwise(tokens)], dtype=bool)
    if count + int(repeated.sum()) > rows:
        return None
    if not count:
        return Alignment(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    # States: blank, token 0, blank, token 1, …, blank. A step stays, moves on by one, or jumps over a blank, unless
    # that blank parts two equal tokens.
    states = np.full(2 * count + 1, blank, np.intp)
    states[1::2] = tokens
    jump = np.full(2 * count + 1, -np.inf)
    jump[3::2][~repeated] = 0
    emission = log_probs[:, states].astype(np.float64)
    # Best log-probability of a path that ends in each state, after two columns of "no such state".
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


def word_scores(
    log_probs: npt.NDArray[np.float32], tokens: Sequence[int], spans: Sequence[tuple[int, int]], blank: int
) -> list[float]:
    """How sure the CTC head is of each word: the mean log-probability of its tokens where it heard them.

    Args:
        log_probs, tokens, blank: as ``align``.
        spans: (first token, one past the last) of each word.

    Returns:
        -inf for every word where the text cannot be aligned.

    Raises:
        ValueError: as ``align``.
    """
    alignment = align(log_probs, tokens, blank)
    return [-inf if alignment is None else float(alignment.score[a:b].mean()) for a, b in spans]


def row_edges(
    rows: int, *, chunk_rows: int, chunk_frames: int, frame_seconds: float, offset: float = 0.0
) -> npt.NDArray[np.float64]:
    """Where the encoder's rows begin, and where the last ends, in seconds: float64 [rows + 1].

    Rows begin every 8 frames of their chunk. Where that leaves a rest they are not evenly spaced: a chunk of 100 frames
    gives 13 rows, the last of which has 4 frames (its other half is padding), so row 13 begins at 1.00 s, not at
    1.04 s; chunks of 200 or 400 frames give 25 or 50 even rows.

    Args:
        chunk_rows, chunk_frames: of the encoder's manifest.
        frame_seconds: the mel hop.
        offset: time at which the first row begins.
    """
    chunk, row = np.divmod(np.arange(rows + 1), chunk_rows)
    return offset + frame_seconds * (chunk * chunk_frames + row * ROW_FRAMES)


def word_times(
    log_probs: npt.NDArray[np.float32],
    tokens: Sequence[int],
    spans: Sequence[tuple[int, int]],
    blank: int,
    edges: npt.NDArray[np.float64],
    end: float,
) -> list[tuple[float, float]] | None:
    """Times of a segment's words, in seconds: from a little before a word's first token's first row to its last token's
    last row's end, or to the next word.

    Args:
        log_probs: float32 [rows, vocabulary + 1], the segment's CTC log-probabilities.
        tokens: of the segment's text, without blanks.
        spans: (first token, one past the last) of each word, in order; tokens between words count for none.
        blank: index of the blank.
        edges: ``row_edges`` of the rows.
        end: of the segment; the last row may reach beyond it, its words do not.

    Returns:
        (start, end) of each word, none before the one in front of it; None where the text cannot be aligned.

    Raises:
        ValueError: as ``align``.
    """
    alignment = align(log_probs, tokens, blank)
    if alignment is None:
        return None
    starts = np.maximum(edges[[alignment.first[a] for a, _ in spans]] - SPIKE_DELAY, edges[0])
    ends = np.minimum(edges[[alignment.last[b - 1] + 1 for _, b in spans]], end)
    # A word ends where the next begins, at the latest.
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    return [(float(min(a, b)), float(b)) for a, b in zip(starts, ends, strict=True)]


def share(words: Sequence[str], start: float, end: float) -> list[tuple[float, float]]:
    """Times of ``words`` where none are known: the time from ``start`` to ``end``, in proportion to their lengths."""
    edges = np.cumsum([0, *map(len, words)], dtype=np.float64)
    edges = np.minimum(start + (end - start) * edges / max(edges[-1], 1), end)
    return [(float(a), float(b)) for a, b in pairwise(edges)]
