"""What the heads beside the encoder heard in a clip, and what they think of its texts (streaming/doubt.py).

Both have never seen a text and are not carried along by what the words before suggest. The CTC head hears tokens, the
phone head sounds, three to a row, and knows nothing of spelling: the words of a text are spoken first
(streaming/pronunciation.py), and texts that sound alike are alike to it.

Contract: an opinion is a pure function of its texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streaming.doubt import CTC, PER_PHONE, PER_TOKEN_CTC, PHONES, Draft, Opinion
from streaming.likelihood import log_likelihoods

Floats = npt.NDArray[np.float32]

Spoken = Callable[[Sequence[int]], tuple[int, ...]]
"""Tokens of a draft → the phones of its text."""


@dataclass(frozen=True, slots=True)
class Sounds:
    """Log-probabilities of a clip: ``ctc`` [rows, vocabulary + 1] and ``phones`` [rows * frames, classes + 1]; None
    where the model has no such head, or the clip no row. None has no rows."""

    ctc: Floats | None = None
    phones: Floats | None = None


def by_tokens(log_probs: Floats, blank: int, start: int) -> Opinion:
    """The CTC head's.

    Args:
        log_probs: float32 [rows, vocabulary + 1], a row at least.
        blank: index of its blank.
        start: where the text begins in each one's tokens; before it stands the language, where that was not forced.
    """

    def opinion(drafts: Sequence[Draft]) -> npt.NDArray[np.float64]:
        heard = log_likelihoods(log_probs, [draft.tokens[start:] for draft in drafts], blank)
        return CTC * heard + PER_TOKEN_CTC * np.array([len(draft.tokens) for draft in drafts])

    return opinion


def by_phones(log_probs: Floats, spoken: Spoken) -> Opinion:
    """The phone head's, from ``log_probs`` float32 [frames, classes + 1], a frame at least; the last class is blank."""

    def opinion(drafts: Sequence[Draft]) -> npt.NDArray[np.float64]:
        texts = [spoken(draft.tokens) for draft in drafts]
        places = {text: i for i, text in enumerate(dict.fromkeys(texts))}  # many sound alike
        heard = log_likelihoods(log_probs, list(places), log_probs.shape[1] - 1)
        return PHONES * heard[[places[text] for text in texts]] + PER_PHONE * np.array([len(text) for text in texts])

    return opinion
