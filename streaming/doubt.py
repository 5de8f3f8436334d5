"""Second thoughts of a final: where it was unsure, what it might have said instead, which text is the best.

Greedy decoding never goes back, so one unlucky token bends all that follows. A final of a model whose tokens cost
little therefore follows other texts too, best first: of all places in all texts found so far, the one where taking
another token costs the least; from there on the decoder goes on greedily (streaming/decoding.py), and what it finds is
a text with places of its own. Of the texts that end, the one is kept which decoder and heads of the encoder together
find the most probable: the decoder knows what people say, the heads have never seen a text and hear only sounds
(streaming/opinions.py). Where the decoder can read text without sound (streaming/language_model.py), it does so with
those that come nearest, and that counts too.

The numbers were chosen on the clips that the shipped model's training held out, none of the test split;
docs/streaming.md says what they give.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from engines.manifest import Decoder
from streaming.language_model import shared

AFFORDABLE: Final = 50_000_000
"""Weights in a decoder's layers up to which its finals have second thoughts. The embedded one has 5 million, the
smallest released one 352 million."""
DOUBTS: Final = 24
"""Most other tokens that are followed in one final."""
ROWS: Final = 384
"""Rows of the decoder after which a final follows no further one. A further hearing's first text counts among its own:
it is found in the same job of the lane, which others wait for, and is never kept from being found."""
OTHERS: Final = 3
"""Most other tokens of one place."""
LEAST: Final = -4.0
"""Log-probability below which a token is not considered."""
CUT: Final = 8.0
"""How far below the best text so far one may be expected to come out and still be followed."""
PER_TOKEN: Final = 0.3
"""Added to the decoder's sum for every token: sums alone favour texts that leave something out."""
CTC: Final = 0.3
"""Weight of the CTC head's log-probability of the text in the last comparison."""
PER_TOKEN_CTC: Final = 0.225
"""Added for every token there: the CTC head favours short texts too."""
PHONES: Final = 0.3
"""Weight of the phone head's log-probability of the text's pronunciation."""
PER_PHONE: Final = 0.22
"""Added for every phone there, for the same reason."""
LM: Final = 0.85
"""Weight of the logarithm of the text's probability without sound."""
PER_TOKEN_LM: Final = 1.65
"""Added for every token there, for the same reason."""
CONTENDERS: Final = 12
"""Most texts that are read without sound: the best by decoder and heads."""
MARGIN: Final = 8.0
"""How far behind the best by those a text may come and still be read."""
READ_ROWS: Final = 384
"""Rows of the decoder beyond which no further text is read."""
HOPELESS: Final = 4.0
"""How far below the best score so far the first text of another hearing may come out and still be doubted."""
UNSURE: Final = -0.6
"""Log-probability of a text's unlikeliest token below which the clip is heard again (streaming/hearings.py)."""


Read = Callable[[Sequence[Sequence[int]]], npt.NDArray[np.float64]]
"""Tokens of texts → logarithms of their probabilities, their ends included."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One token of a text, its end included: natural logarithm of its probability, and (token, logarithm) of the
    likeliest others, best first."""

    log: float
    others: tuple[tuple[int, float], ...] = ()


@dataclass(slots=True)
class Draft:
    """A text being decoded. ``choices`` is kept where asked for, one a token and one for the end."""

    tokens: list[int] = field(default_factory=list[int])
    probabilities: list[float] = field(default_factory=list[float])
    choices: list[Choice] = field(default_factory=list[Choice])
    ended: bool = False
    """The model ended it; not a limit, not a loop."""
    looped: bool = False
    """A loop was cut out of it."""
    score: float | None = None
    """What ``best_of`` made of it: comparable among texts of the same words, at other speeds too. None: not yet seen,
    or too far behind to be read."""

    @property
    def total(self) -> float:
        """The decoder's opinion of it, comparable among texts of the same audio."""
        return sum(c.log for c in self.choices) + PER_TOKEN * len(self.tokens)


@dataclass(frozen=True, slots=True)
class Doubt:
    """Take ``token`` instead of what ``draft`` has at ``position``."""

    draft: Draft
    position: int
    token: int
    log: float

    def begun(self) -> Draft:
        """The draft up to the position and the choice there; the token itself is still to be added."""
        draft, at = self.draft, self.position
        return Draft(draft.tokens[:at], draft.probabilities[:at], [*draft.choices[:at], Choice(self.log)])


Opinion = Callable[[Sequence[Draft]], npt.NDArray[np.float64]]
"""Texts of the same audio → what is added to the score of each; -inf: it cannot have been said."""


class Agenda:
    """Doubts of the texts found so far, the most promising first. Equal ones in the order they came."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Doubt]] = []
        self._best = -np.inf
        self._count = 0

    def add(self, draft: Draft, start: int) -> None:
        """A text that ended; its places from ``start`` on may be doubted."""
        total = draft.total
        self._best = max(self._best, total)
        for position in range(start, len(draft.choices)):
            taken = draft.choices[position]
            for token, log in taken.others:
                self._count += 1
                # As if the rest were to cost the same.
                expected = total - taken.log + log
                heapq.heappush(self._heap, (-expected, self._count, Doubt(draft, position, token, log)))

    def next(self) -> Doubt | None:
        """The doubt to follow now, None where none promises enough."""
        if not self._heap or -self._heap[0][0] < self._best - CUT:
            return None
        return heapq.heappop(self._heap)[2]


def affordable(decoder: Decoder) -> bool:
    """Whether a model's tokens cost so little that a final may follow several texts. By its dimensions, not its bytes:
    a model hears the same in every precision. A layer has about 12 · width² weights."""
    return 12 * decoder.layers * decoder.width**2 <= AFFORDABLE


def inverse(logits: npt.NDArray[np.float32], token: int) -> np.float32:
    """The reciprocal of the softmax probability of ``token`` from ``logits`` [vocabulary]; banned ones are -inf."""
    top = float(logits[token])
    return np.exp(logits - top).sum() if np.isfinite(top) else np.float32(np.inf)


def choose(logits: npt.NDArray[np.float32], token: int, reciprocal: np.float32 | None = None) -> Choice:
    """The choice of ``token`` from ``logits`` [vocabulary]; banned ones are -inf.

    ``reciprocal``: :func:`inverse` of both, where the caller has it.
    """
    top = float(logits[token])
    whole = top + float(np.log(inverse(logits, token) if reciprocal is None else reciprocal))
    (near,) = np.nonzero(logits >= whole + LEAST)
    others = sorted((-float(logits[i]), int(i)) for i in near if i != token)[:OTHERS]
    return Choice(top - whole, tuple((i, -minus - whole) for minus, i in others))


def best_of(
    drafts: Sequence[Draft],
    opinions: Sequence[Opinion] = (),
    read: Read | None = None,
) -> Draft:
    """The best of several texts of the same audio, the first of equals; the ``score`` of each that may be it is set.

    Args:
        opinions: of those who heard the sound. What one finds impossible cannot be the best, but an opinion that leaves
            no text possible is left out: its clip has too few rows for any.
        read: what tells how probable texts are without the audio, where the decoder can.
    """
    return ranked(drafts, opined(drafts, np.array([draft.total for draft in drafts]), opinions), read)


def opined(
    drafts: Sequence[Draft], scores: npt.NDArray[np.float64], opinions: Sequence[Opinion]
) -> npt.NDArray[np.float64]:
    """``scores`` and what the ``opinions`` add to them; one that leaves no text possible is left out."""
    for opinion in opinions:
        together = scores + opinion(drafts)
        if np.isfinite(together).any():
            scores = together
    return scores


def ranked(drafts: Sequence[Draft], scores: npt.NDArray[np.float64], read: Read | None) -> Draft:
    """As :func:`best_of`, from the ``scores`` that those who heard the sound have given."""
    if read is not None:
        chosen = contenders(drafts, scores)
        drafts, scores = [drafts[i] for i in chosen], scores[chosen]
        scores += LM * read([draft.tokens for draft in drafts])
        scores += PER_TOKEN_LM * np.array([len(draft.tokens) for draft in drafts])
    for draft, score in zip(drafts, scores, strict=True):
        draft.score = float(score)
    return drafts[int(scores.argmax())]


def contenders(drafts: Sequence[Draft], scores: npt.NDArray[np.float64]) -> list[int]:
    """The places of the texts that are worth reading, ascending: the best by their ``scores``, but no more than may
    be. The best of all is one of them however long it is."""
    chosen, rows = list[int](), 0
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    for i in order:
        tokens = drafts[i].tokens
        if chosen and (len(chosen) == CONTENDERS or scores[i] < scores[chosen[0]] - MARGIN):
            break
        # What begins like another text is evaluated with it.
        rows += len(tokens) - max((shared(tokens, drafts[k].tokens) for k in chosen), default=0)
        if chosen and rows > READ_ROWS:
            break
        chosen.append(i)
    return sorted(chosen)
