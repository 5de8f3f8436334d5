"""How probable the CTC head finds a text: the sum over all of its paths, not the best one alone.

Contract: a pure function. The forward algorithm over several texts at once, in probabilities that each row scales to a
greatest of one, so that nothing underflows but what is hopeless beside the likeliest path of the same text
(streaming/alignment.py has the best path, and where each token lies on it).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def log_likelihoods(
    log_probs: npt.NDArray[np.float32], texts: Sequence[Sequence[int]], blank: int
) -> npt.NDArray[np.float64]:
    """Logarithm of the CTC probability of each text.

    Args:
        log_probs: float32 [rows, vocabulary + 1], natural logarithms, at least one row; -inf is allowed.
        texts: tokens of each, without blanks.
        blank: index of the blank.

    Returns:
        float64 [texts]; -inf for a text that no path spells, one too long for the rows among them.

    Raises:
        ValueError: no rows, or a token is the blank or outside the vocabulary.
    """
    if log_probs.ndim != 2 or not len(log_probs):
        raise ValueError(f"log_probs: [rows, vocabulary + 1] expected, shape {log_probs.shape}")
    width = log_probs.shape[1]
    for token in {token for text in texts for token in text} | {blank}:
        if not 0 <= token < width:
            raise ValueError(f"texts: {token} lies outside 0…{width - 1}")
    if any(blank in text for text in texts):
        raise ValueError(f"texts: {blank} is the blank")

    # States: blank, token 0, blank, token 1, …, blank; those beyond a text's own are never entered.
    lengths = np.array([len(text) for text in texts], dtype=np.intp)
    count = 2 * int(lengths.max(initial=0)) + 1
    states = np.full((len(texts), count), blank, np.intp)
    for i, text in enumerate(texts):
        states[i, 1 : 2 * len(text) : 2] = text
    exists = np.arange(count) <= 2 * lengths[:, None]
    jumps = np.zeros((len(texts), count))
    jumps[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]  # over a blank, unless it parts two equal tokens

    peaks = log_probs.max(axis=1, keepdims=True).astype(np.float64)
    with np.errstate(invalid="ignore"):  # a row of nothing but -inf
        probabilities = np.nan_to_num(np.exp(log_probs - peaks), nan=0.0)
    reached = np.zeros((len(texts), count + 2))  # two columns of "no such state" first
    reached[:, 2:4] = (probabilities[0][states] * exists)[:, :2]
    scales = np.zeros(len(texts))
    for row in probabilities[1:]:
        step = reached[:, 2:] + reached[:, 1:-1]
        step += reached[:, :-2] * jumps
        step *= row[states]
        step *= exists
        most = step.max(axis=1)
        most[most == 0] = 1  # nothing was reached: it stays so
        scales += np.log(most)
        np.divide(step, most[:, None], out=reached[:, 2:])
    which = np.arange(len(texts))
    ends = reached[which, 2 * lengths + 2] + reached[which, 2 * lengths + 1]
    with np.errstate(divide="ignore"):
        return np.log(ends) + scales + float(peaks.sum())
