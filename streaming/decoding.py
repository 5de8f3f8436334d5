"""Decoding the text of one segment, token by token, from the logits after its prompt to its end.

Contract: decoding is greedy, one row a call, with two guards. A *budget* limits the tokens by the length of the audio.
A *loop*, a block of tokens that the model repeats, is cut back to its first turn; a final then goes on with another
token than the one that began the second turn, so that what was said afterwards is transcribed too, while an interim
stops there. This module knows neither audio nor sessions: callers hand in what evaluates a row.
"""

from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streaming.keyterms import KeytermBias
from streaming.prompt import Answer, Closers

Floats = npt.NDArray[np.float32]

Step = Callable[[int, int], Generator[Any, Any, Floats]]
"""A token and the position of its row → the logits [vocabulary] that choose the next one, when a model gives them."""

Read = Callable[[Sequence[int], int], Generator[Any, Any, Floats]]
"""Tokens and the position of their first row → the logits [n, vocabulary] after each."""

BLOCK: Final = 32
"""How many tokens of a draft are evaluated in one call. What follows the first difference is in vain, and at released
dimensions the logits of a row take 0.6 MB three times over."""
TOKENS_PER_SECOND: Final = 16
"""How many text tokens a second of audio may have before decoding stops: twice the rate of fast speech."""
TOKENS_EXTRA: Final = 12
"""How many tokens are allowed beside those: for the language that some models write first, and so that a clip shorter
than a second may still hold a few words."""
MAX_BANS: Final = 4
"""How many loops are broken within one final before its text ends at the next. Each may cost a whole budget of tokens,
so the number bounds a final's time; it is a choice."""
OTHERS: Final = 3
"""How many alternatives to a chosen token are kept at most. Rescoring tries eight in a whole text, so more at one place
would hardly be reached."""
LEAST: Final = -4.0
"""The log-probability (a probability of 1.8 %) below which an alternative is not kept: it would cost a call and hardly
ever win."""
MAX_PERIOD: Final = 12
"""How many tokens the block of a loop has at most: a short sentence. It is a choice; a longer loop runs into the
budget."""
MIN_TURNS: Final = 4
MIN_TOKENS: Final = 8
"""A loop has at least four turns and eight tokens: "no no no no" is speech."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the model takes the audio to say. ``tokens`` are its whole answer, with the language where that is not
    forced; ``probabilities`` has one for each, 0…1."""

    tokens: tuple[int, ...]
    probabilities: tuple[float, ...]
    answer: Answer
    ending: float = 0.0
    """The probability, 0…1, that a mark which ends a sentence follows the last word; of a final only."""

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
    """The choice of one token of a text, or of its end: the natural logarithm of its probability, and the (token,
    logarithm) of the likeliest alternatives, best first."""

    log: float
    others: tuple[tuple[int, float], ...] = ()


NO_CLOSERS: Final = Closers(frozenset(), np.zeros(0, np.int64))


@dataclass(slots=True)
class Draft:
    """A text that is being decoded. ``choices`` is filled where asked for: one a token, and one for the end."""

    tokens: list[int] = field(default_factory=list[int])
    probabilities: list[float] = field(default_factory=list[float])
    choices: list[Choice] = field(default_factory=list[Choice])
    ended: bool = False
    """Whether the model ended the text itself; False where a limit or a loop did."""
    looped: bool = False
    """Whether a loop was cut out of the text."""
    ending: float = 0.0
    """As that of a hypothesis."""

    def close(self, logits: Floats, best: int, stop: Collection[int], closers: Closers) -> None:
        """Take in what ``logits``, which chose ``best`` as the next token, say of the end of a sentence here."""
        if (best in closers.marks or best in stop) and not (self.tokens and self.tokens[-1] in closers.marks):
            top = logits[best]
            self.ending = float(np.exp(logits[closers.sentence] - top).sum() / inverse(logits, best))

    def append(self, token: int, probability: float) -> None:
        """Append a token and its probability."""
        self.tokens.append(token)
        self.probabilities.append(probability)

    def cut(self, length: int) -> None:
        """Keep the first ``length`` tokens and their choices."""
        del self.tokens[length:], self.probabilities[length:], self.choices[length:]


def budget(samples: int, sample_rate: int, rows: int) -> int:
    """How many tokens the text of a clip of ``samples`` may have; the cache has room for ``rows`` of them."""
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
    closers: Closers = NO_CLOSERS,
) -> Generator[Any, Any, None]:
    """Decode greedily and append to ``draft``.

    Args:
        logits: float32 [vocabulary], those that choose the next token; ``bias`` has already been applied to them.
        position: the position of the next row.
        stop: the tokens that end a text.
        limit: how many tokens the text has at most.
        kept: how many tokens of ``draft`` stay even if they are part of a loop.
        bans: after how many loops decoding goes on, with another token than the one that began the second turn.
        choices: whether to fill the draft's choices.
        closers: the marks of the vocabulary.
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
        draft.close(logits, best, stop, closers)
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
        logits = yield from step(tokens[-1], first + len(tokens) - 1)
        bias.apply(logits, tokens)


def agree(
    draft: Draft, guess: Sequence[int], logits: Floats, position: int, *, read: Read, bias: KeytermBias
) -> Generator[Any, Any, tuple[Floats, int]]:
    """Append to ``draft`` what of ``guess`` the decoder would itself have chosen, up to the first difference.

    Args:
        logits: float32 [n + 1, vocabulary]: those that choose each of the first n tokens of ``guess``, whose rows are
            evaluated, and the token after them. ``bias`` is applied in place.
        position: the position behind those rows.
        read: evaluates the rows of further tokens, :data:`BLOCK` at most in a call.

    Returns:
        The logits [vocabulary] that choose the next token, and the position of its row.
    """
    rows, evaluated, count = deque(logits), len(logits) - 1, 0
    while True:
        if not rows:
            block = guess[evaluated : evaluated + BLOCK]
            rows.extend((yield from read(block, position)))
            evaluated, position = evaluated + len(block), position + len(block)
        row = rows.popleft()
        bias.apply(row, draft.tokens)
        if count == len(guess) or row.argmax() != guess[count]:
            return row, position - (evaluated - count)
        draft.append(guess[count], float(1.0 / inverse(row, guess[count])))
        count += 1


def inverse(logits: Floats, token: int) -> np.float32:
    """The reciprocal of the softmax probability of ``token``; ``logits`` [vocabulary] are -inf for banned tokens."""
    top = float(logits[token])
    return np.exp(logits - top).sum() if np.isfinite(top) else np.float32(np.inf)


def choose(logits: Floats, token: int) -> Choice:
    """The choice of ``token`` from ``logits`` [vocabulary], which are -inf for banned tokens."""
    top = float(logits[token])
    whole = top + float(np.log(inverse(logits, token)))
    (near,) = np.nonzero(logits >= whole + LEAST)
    others = sorted((-float(logits[i]), int(i)) for i in near if i != token)[:OTHERS]
    return Choice(top - whole, tuple((i, -minus - whole) for minus, i in others))


def loop(tokens: Sequence[int]) -> int:
    """The index at which the second turn of the loop begins that ``tokens`` end with, or 0 where they end with none.
    The shortest block that repeats often enough counts."""
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
