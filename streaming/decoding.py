"""Texts of one segment, token by token: from the logits after its prompt to its end.

Contract: greedy, one row a call, with two guards: a *budget* of tokens by the length of the audio, and *loops*, which
are cut back to their first turn. A final goes on behind a loop with another token than the one that began the second
turn, so what was said after it is still heard; an interim stops there. Knows neither audio nor sessions: what evaluates
a row is handed in.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from streaming.keyterms import KeytermBias
from streaming.prompt import Answer

Floats = npt.NDArray[np.float32]

Step = Callable[[int, int], Floats]
"""A token and the position of its row → the logits [vocabulary] that choose the next one."""

TOKENS_PER_SECOND: Final = 16
"""Text tokens a second of audio may cost before decoding stops: twice the rate of fast speech."""
TOKENS_EXTRA: Final = 12
MAX_BANS: Final = 4
"""Repetition loops broken within one final before it is taken as it stands."""
OTHERS: Final = 3
"""Most other tokens of one place that a draft's choices keep."""
LEAST: Final = -4.0
"""Log-probability below which they are not kept."""
MAX_PERIOD: Final = 12
MIN_TURNS: Final = 4
MIN_TOKENS: Final = 8
"""A loop is at least four turns and eight tokens: "no no no no" is speech, not a loop."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the model heard. ``tokens`` are the whole answer, language included where it was not forced."""

    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    answer: Answer

    @property
    def header(self) -> tuple[int, ...]:
        """The tokens before the text."""
        return self.tokens[: len(self.tokens) - len(self.answer.body)]

    @property
    def body_probabilities(self) -> tuple[float, ...]:
        """Probabilities of the text tokens."""
        return self.probabilities[len(self.probabilities) - len(self.answer.body) :]


EMPTY: Final = Hypothesis((), (), Answer(None, (), ""))


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

    def append(self, token: int, probability: float) -> None:
        """One more token."""
        self.tokens.append(token)
        self.probabilities.append(probability)

    def cut(self, length: int) -> None:
        """Keep the first ``length`` tokens and their choices."""
        del self.tokens[length:], self.probabilities[length:], self.choices[length:]


def budget(samples: int, sample_rate: int, rows: int) -> int:
    """Tokens that the text of a clip of ``samples`` may have, of which the cache has room for ``rows``."""
    return min(int(samples / sample_rate * TOKENS_PER_SECOND) + TOKENS_EXTRA, rows)


def follow(
    draft: Draft,
    logits: Floats,
    position: int,
    *,
    step: Step,
    stop: Collection[int],
    bias: KeytermBias,
    limit: int,
    kept: int = 0,
    bans: int = 0,
    choices: bool = False,
) -> None:
    """Decode greedily from ``logits`` [vocabulary] on, which ``bias`` has been applied to, appending to ``draft``.

    Args:
        position: of the next row.
        stop: tokens that end a text.
        limit: most tokens of the text.
        kept: tokens of ``draft`` that a loop does not take back.
        bans: loops behind which decoding goes on, with another token than the one that began the second turn.
        choices: keep the draft's choices.
    """
    tokens, first = draft.tokens, position - len(draft.tokens)
    banned: dict[int, set[int]] = {}
    loops = 0
    while len(tokens) < limit:
        for token in banned.get(len(tokens), ()):
            logits[token] = -np.inf
        best = int(logits.argmax())
        if choices:
            draft.choices.append(choose(logits, best))
        if best in stop:
            draft.ended = True
            break
        draft.append(best, float(1.0 / inverse(logits, best)))
        if start := loop(tokens):
            loops += 1
            draft.looped = True
            if loops > bans:
                draft.cut(max(start, kept))
                break
            banned.setdefault(start, set()).add(tokens[start])
            draft.cut(start)
        logits = step(tokens[-1], first + len(tokens) - 1)
        bias.apply(logits, tokens)


def accepted(draft: Sequence[int], logits: Floats, bias: KeytermBias, kept: Sequence[int]) -> int:
    """How many tokens of ``draft`` the decoder says itself after ``kept``.

    Args:
        logits: float32 [len(draft) + 1, vocabulary], those that choose each token of the draft and the one after it.
            ``bias`` is applied in place to the rows up to the first that is not accepted.
    """
    for i, token in enumerate(draft):
        bias.apply(logits[i], [*kept, *draft[:i]])
        if logits[i].argmax() != token:
            return i
    bias.apply(logits[len(draft)], [*kept, *draft])
    return len(draft)


def inverse(logits: Floats, token: int) -> np.float32:
    """The reciprocal of the softmax probability of ``token`` from ``logits`` [vocabulary]; banned ones are -inf."""
    top = float(logits[token])
    return np.exp(logits - top).sum() if np.isfinite(top) else np.float32(np.inf)


def choose(logits: Floats, token: int) -> Choice:
    """The choice of ``token`` from ``logits`` [vocabulary]; banned ones are -inf."""
    top = float(logits[token])
    whole = top + float(np.log(inverse(logits, token)))
    (near,) = np.nonzero(logits >= whole + LEAST)
    others = sorted((-float(logits[i]), int(i)) for i in near if i != token)[:OTHERS]
    return Choice(top - whole, tuple((i, -minus - whole) for minus, i in others))


def loop(tokens: Sequence[int]) -> int:
    """Where the second turn of a loop begins that ``tokens`` end with: a block, the shortest there is, that they repeat
    often enough; 0 where there is none."""
    for length in range(1, MAX_PERIOD + 1):
        span = length * max(MIN_TURNS, -(-MIN_TOKENS // length))
        if span > len(tokens):
            continue
        tail = tokens[-span:]
        if all(tail[i] == tail[i + length] for i in range(span - length)):
            start = len(tokens) - span
            while start > 0 and tokens[start - 1] == tokens[start - 1 + length]:
                start -= 1
            return start + length
    return 0
