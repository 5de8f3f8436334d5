"""An n-best list of one final: the cheapest alternatives of its greedy text, and which of all fits the sound best.

Greedy decoding never goes back, so one unlucky token bends what follows. Each alternative takes another token at one
place and goes on greedily from there, with the greedy text as its draft: mostly one short call. Alternatives come from
the last place to the first, so the rows before a place are still the greedy text's. What is evaluated, and in which
calls, depends on the clip alone. Decoder and CTC head judge together: the decoder knows what people say, the head has
never seen a text.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.ctc import log_likelihoods
from streaming.decoding import Choice, Draft, choose, loop
from streaming.keyterms import KeytermBias

Floats = npt.NDArray[np.float32]

Evaluate = Callable[[Sequence[int], int, int], Floats]
"""Tokens, the position of the first one's row, and the first row whose logits are wanted → those logits
[rows, vocabulary]."""

MOST: Final = 8
"""Most alternatives of one final."""
CUT: Final = 5.0
"""How much less probable than the greedy text one may be, natural logarithm, as far as its one token tells."""
PER_TOKEN: Final = 0.525
"""Added to a text's score for every token: sums of logarithms favour short texts."""
CTC: Final = 0.3
"""Weight of the CTC head's log-probability of the text."""
NEAR: Final = 5
"""How far from its own place a token may be found again in the greedy text."""
DRAFT: Final = 8
"""Most tokens of a draft: those behind its first error were evaluated for nothing."""


def rescored(
    greedy: Draft,
    start: int,
    position: int,
    ctc: Floats,
    blank: int,
    *,
    evaluate: Evaluate,
    stop: Collection[int],
    bias: KeytermBias,
    limit: int,
) -> Draft:
    """The best of ``greedy``, which ended and has its choices, and its alternatives.

    Args:
        start: tokens before the text (its language).
        position: of the row of the first token.
        ctc: float32 [rows, vocabulary + 1], the CTC head's log-probabilities of the clip; ``blank`` is its blank.
        limit: most tokens of a text.
    """
    places = sorted(
        (greedy.choices[at].log - log, at, token, log)
        for at in range(start, len(greedy.choices))
        for token, log in greedy.choices[at].others
        if greedy.choices[at].log - log < CUT
    )[:MOST]

    def go_on(draft: Draft, begin: int) -> None:
        """Append what follows ``draft``, guessing what the greedy text says from ``begin`` on."""
        tokens, guess = draft.tokens, expected(greedy.tokens, begin, draft.tokens[-1], begin)
        while len(tokens) < limit and not loop(tokens):
            guess = guess[: limit - len(tokens) - 1]  # behind the last token that fits nobody looks for an end
            last = len(tokens) - 1
            for k, row in enumerate(evaluate([tokens[last], *guess], position + last, 0)):
                bias.apply(row, tokens)
                best = int(row.argmax())
                draft.choices.append(choose(row, best))
                if best in stop:
                    draft.ended = True
                    return
                draft.append(best, float(np.exp(draft.choices[-1].log)))
                if k == len(guess) or best != guess[k] or loop(tokens):
                    break
            guess = expected(greedy.tokens, len(tokens) - 1, tokens[-1], begin)

    found = {tuple(greedy.tokens): greedy}
    for _, at, token, log in sorted(places, key=lambda place: -place[1]):
        draft = Draft(greedy.tokens[:at], greedy.probabilities[:at], [*greedy.choices[:at], Choice(log)])
        draft.ended = token in stop
        if not draft.ended:
            draft.append(token, float(np.exp(log)))
            go_on(draft, at)
        if draft.ended:
            found.setdefault(tuple(draft.tokens), draft)
    drafts = list(found.values())
    scores = np.array([sum(c.log for c in draft.choices) + PER_TOKEN * len(draft.tokens) for draft in drafts])
    heard = CTC * log_likelihoods(ctc, [draft.tokens[start:] for draft in drafts], blank)
    # A clip with too few rows for any text says nothing.
    return drafts[int((scores + heard if np.isfinite(heard).any() else scores).argmax())]


def expected(greedy: Sequence[int], place: int, token: int, begin: int) -> Sequence[int]:
    """What ``greedy`` says after the ``token`` that stands nearest to ``place`` in it, not before ``begin``; nothing
    where it stands too far off."""
    near = range(max(begin, place - NEAR), min(len(greedy), place + NEAR + 1))
    found = min((k for k in near if greedy[k] == token), key=lambda k: abs(k - place), default=None)
    return () if found is None else greedy[found + 1 : found + 1 + DRAFT]
