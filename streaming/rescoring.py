"""An n-best list for one final: the likeliest alternatives to its greedy text, of which the one that fits best is
chosen.

Greedy decoding never goes back, so one wrong token spoils what follows. Each alternative takes another token at one
place and goes on greedily from there. The greedy text serves as its draft, so that one short call mostly suffices.
Alternatives are decoded from the last place to the first, so that the cache still holds the greedy text's rows before
each place. What is evaluated, and in which calls, depends on the clip alone. Decoder and CTC head judge together: the
decoder knows which texts are likely, the head judges by the sound alone.
"""

from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streaming.ctc import log_likelihoods
from streaming.decoding import NO_CLOSERS, Choice, Draft, choose, loop
from streaming.keyterms import KeytermBias
from streaming.prompt import Closers

Floats = npt.NDArray[np.float32]

Evaluate = Callable[[Sequence[int], int, int], Generator[Any, Any, Floats]]
"""Evaluates tokens: it takes them, the position of the first one's row, and the index of the first one whose logits are
wanted, and returns those logits, float32 [wanted, vocabulary]."""

MOST: Final = 8
"""How many alternatives of one final are tried at most. With 24, and more judges, clips had 10 % fewer word errors for
twice the time, and finals came late (notes/2026-11-finals.md)."""
CUT: Final = 1.5
"""How much less probable than the greedy text's token an alternative's may be, as a difference of natural logarithms.
Of the alternatives that were chosen 98 % lie above, of the calls that they cost half lies below
(notes/2026-11-finals.md)."""
PER_TOKEN: Final = 0.525
"""This is added to a text's score for every token, since sums of log-probabilities favour short texts: 0.3 for the
decoder's sum and 0.225 for the head's. Neither this nor ``CTC`` matters much (notes/2026-11-finals.md)."""
CTC: Final = 0.3
"""The weight of the CTC head's log-probability of the text."""
NEAR: Final = 5
"""How many tokens from its own place a token is searched for in the greedy text: an alternative is rarely more than a
word longer or shorter."""
DRAFT: Final = 8
"""How many tokens a draft has at most: those after its first wrong one are evaluated for nothing. It is a choice; 58 of
62 rows that alternatives cost per final are needed (notes/2026-11-full-machine.md)."""


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
    closers: Closers = NO_CLOSERS,
) -> Generator[Any, Any, Draft]:
    """The best of ``greedy`` and its alternatives.

    Args:
        greedy: the greedy text, which the model ended itself, with its choices.
        start: how many tokens stand before the text, for its language.
        position: the position of the first token's row.
        ctc: float32 [rows, vocabulary + 1], the CTC head's log-probabilities of the clip.
        blank: the index of the blank.
        evaluate: evaluates tokens after those that are in the cache.
        stop: the tokens that end a text.
        bias: the keyterms' bonus.
        limit: how many tokens a text has at most.
        closers: the marks of the vocabulary.
    """
    # A text without a word is doubted whatever its probability: there is a single place to go on from.
    cut = CUT if len(greedy.tokens) > start else np.inf
    places = sorted(
        (greedy.choices[at].log - log, at, token, log)
        for at in range(start, len(greedy.choices))
        for token, log in greedy.choices[at].others
        if greedy.choices[at].log - log < cut
    )[:MOST]

    def go_on(draft: Draft, begin: int) -> Generator[Any, Any, None]:
        """Decode on from ``draft``, with the greedy text from ``begin`` on as a guess."""
        tokens, guess = draft.tokens, expected(greedy.tokens, begin, draft.tokens[-1], begin)
        while len(tokens) < limit and not loop(tokens):
            guess = guess[: limit - len(tokens) - 1]  # A text that reaches the limit is dropped, so more is in vain.
            last = len(tokens) - 1
            rows = yield from evaluate([tokens[last], *guess], position + last, 0)
            for k, row in enumerate(rows):
                bias.apply(row, tokens)
                best = int(row.argmax())
                draft.choices.append(choose(row, best))
                draft.close(row, best, stop, closers)
                if best in stop:
                    draft.ended = True
                    return
                draft.append(best, float(np.exp(draft.choices[-1].log)))
                if k == len(guess) or best != guess[k] or loop(tokens):
                    break
            guess = expected(greedy.tokens, len(tokens) - 1, tokens[-1], begin)

    found = {tuple(greedy.tokens): greedy}
    closed = len(greedy.tokens)
    while closed > start and greedy.tokens[closed - 1] in closers.marks:
        closed -= 1
    for _, at, token, log in sorted(places, key=lambda place: -place[1]):
        draft = Draft(greedy.tokens[:at], greedy.probabilities[:at], [*greedy.choices[:at], Choice(log)])
        draft.ended = token in stop
        if at >= closed:  # It differs in what follows the last word, of which the same row tells.
            draft.ending = greedy.ending
        elif token in closers.sentence:
            draft.ending = float(np.exp(log))
        if not draft.ended:
            draft.append(token, float(np.exp(log)))
            yield from go_on(draft, at)
        if draft.ended:
            found.setdefault(tuple(draft.tokens), draft)
    drafts = list(found.values())
    scores = np.array([sum(c.log for c in draft.choices) + PER_TOKEN * len(draft.tokens) for draft in drafts])
    acoustic = CTC * log_likelihoods(ctc, [draft.tokens[start:] for draft in drafts], blank)
    # In a clip that has too few rows for any of the texts, the head cannot judge.
    return drafts[int((scores + acoustic if np.isfinite(acoustic).any() else scores).argmax())]


def expected(greedy: Sequence[int], place: int, token: int, begin: int) -> Sequence[int]:
    """What probably follows ``token`` at ``place``: what follows the nearest such token in ``greedy``, from ``begin``
    on; nothing if there is none near."""
    near = range(max(begin, place - NEAR), min(len(greedy), place + NEAR + 1))
    found = min((k for k in near if greedy[k] == token), key=lambda k: abs(k - place), default=None)
    return () if found is None else greedy[found + 1 : found + 1 + DRAFT]
