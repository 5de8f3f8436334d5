"""End of turn: how probable it is, at each look into a silence, that whoever spoke has said what they had to say.

Contract: pure functions of what was heard before a silence and of how long that has lasted, so of the samples alone.
The decoder itself judges the text: the final that is decoded in advance, 0.1 s into a silence, tells how probable a
mark is that ends a sentence. A last word that calls for more ("and", "um") and what comes in groups (digits, letters)
speak against an end whatever the mark. Each tenth of a second of silence speaks for one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Final

from engines.sessions import OptionError
from streaming.events import bare

LITERAL: Final = 0.6
"""Seconds of silence that end an utterance where nobody asks for more, or of whose words nothing is known: none were
heard, or its audio stopped."""
SHORTEST: Final = 0.2
"""Seconds of silence before which no turn ends. A final in advance is decoded by then, so that nobody waits for it."""

BASE: Final = 0.7
"""What speaks for an end in any silence, as the natural logarithm of odds. This and the next four were fitted on
training clips (docs/hearing.md has the curve on others)."""
MARK: Final = 1.15
"""How much of the log-odds of the decoder's mark counts."""
SECOND: Final = 1.1
"""What a second of silence adds."""
MORE: Final = -1.0
"""The log-odds of an end behind a last word that calls for more, at most: 2.2 s of silence at a threshold of 0.8."""
GROUP: Final = -9.0
"""Those behind digits or letters: nobody is cut between two groups of a number."""
NUMBER: Final = 0.3
"""Those behind the only digit or number of a sentence of at least ``SENTENCE`` words, at most: nobody who says "Set a
timer for ten." waits for long, 1 s at a threshold of 0.8."""
SENTENCE: Final = 4
"""How many words a sentence has at least; what is shorter may be the first group of a number ("Code nine")."""
CLEAREST: Final = 6.0
"""The log-odds of a mark count up to this."""

_MORE: Final = frozenset(
    "a an the my your his its our their every of to at by for from with into onto about between during and or but nor "
    "because if when while which whose whether although unless until than as is was would um uh er erm ehm hmm "
    "mr mrs dr st".split()
)
"""English words that mostly have others behind them."""
_NUMBERS: Final = frozenset(
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million "
    "double triple dash hyphen dot slash underscore plus number".split()
)
"""English words that numbers, addresses and names are spelled with."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How sure it must be that a turn has ended.

    Attributes:
        threshold: the probability at which it ends, 0.3…1; 1 is never reached.
        timeout: seconds of silence that end it anyway, 0.3…60.
        eager: the probability at which ``Paused`` comes, 0…1, at most ``threshold``; or None.
        least: seconds of silence before which it does not end, however sure that is, 0.2…10: people pause at commas.

    Raises:
        OptionError: a value lies outside its bounds; the error names it.
    """

    threshold: float = 0.8
    timeout: float = 2.5
    eager: float | None = None
    least: float = SHORTEST

    def __post_init__(self) -> None:
        for name, low, high, unit in (
            ("threshold", 0.3, 1, ""),
            ("timeout", 0.3, 60, " s"),
            ("eager", 0, 1, ""),
            ("least", SHORTEST, 10, " s"),
        ):
            value: float | None = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise OptionError(name, f"{value:g}{unit} lies outside {low:g}…{high:g}{unit}")
        if self.eager is not None and self.eager > self.threshold:
            raise OptionError("eager", f"{self.eager:g} is more than the threshold, {self.threshold:g}")

    def wait(self, said: float | None) -> float:
        """After how many seconds of silence a turn ends whose words speak for an end by ``said`` (:func:`spoken`)."""
        if said is None:
            return min(max(LITERAL, self.least), self.timeout)
        needed = inf if self.threshold >= 1 else (log(self.threshold / (1 - self.threshold)) - said) / SECOND
        return min(max(needed, self.least), self.timeout)


DEFAULT: Final = Turn(timeout=LITERAL, least=0.28)
"""What ends utterances where nobody asks for anything: nobody waits for longer than by silence alone, and a shorter
pause than a quarter of a second, such as a breath within a phrase, ends nothing."""


def spoken(words: Sequence[str], mark: float) -> float | None:
    """How much what was said speaks for an end, as the natural logarithm of odds.

    Args:
        words: all words of the utterance, with their marks.
        mark: the probability, 0…1, of a mark that ends a sentence behind them (``Hypothesis.ending``).

    Returns:
        None where there are no words.
    """
    if not words:
        return None
    least = exp(-CLEAREST)
    clear = min(1 - least, max(least, mark))  # In this order the NaN of a broken model counts as the least.
    odds = BASE + MARK * log(clear / (1 - clear))
    last = _plain(words[-1])
    if last in _MORE:
        return min(odds, MORE)
    if not _spells(last):
        return odds
    alone = len(words) >= SENTENCE and not _spells(_plain(words[-2])) and sum(map(str.isnumeric, last)) < 3
    return min(odds, NUMBER if alone else GROUP)


def _plain(word: str) -> str:
    """The last part of ``word``, without marks, in lower case."""
    return bare(word).lower().strip("\"'”’)").rsplit("-", 1)[-1]


def _spells(word: str) -> bool:
    """Whether it is a number, a digit or a letter."""
    return word in _NUMBERS or any(letter.isnumeric() for letter in word) or (len(word) == 1 and word.isalpha())


def sure(said: float | None, silence: float) -> float:
    """The probability, 0…1, that a turn has ended after ``silence`` seconds without voice; ``said``: of its words."""
    odds = (BASE if said is None else said) + SECOND * silence
    return 1 / (1 + exp(-max(min(odds, 50.0), -50.0)))
