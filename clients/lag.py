"""How late captions are: when audio was sent, compared with when its text came back.

*Partial lag* of a word: from the moment its last sample was sent to the first message that contains it, interim or
final. *Final lag* of an utterance: from the moment the last sample of its last word was sent to its final text; the
endpointing silence, which must pass before anybody can know that it ended, is part of it and is given apart.
Word ends are the final's own word times, unless the caller knows better (synthetic speech).
"""

import bisect
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .events import Results, Word


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile, ``share`` 0…1; NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class LagMeter:
    """Collects one session's lags. ``sent`` and ``received`` take the time of one monotonic clock, in seconds."""

    true_end: Callable[[Word], float | None] | None = None
    """Gives the true end of a final's word on the session's clock; None for a word that is not to be counted."""
    partial: list[float] = field(default_factory=list[float])
    """How many seconds late each word of the finals came first."""
    final: list[float] = field(default_factory=list[float])
    """How many seconds late each final came that an endpoint closed."""
    _positions: list[float] = field(default_factory=list[float])
    _times: list[float] = field(default_factory=list[float])
    _interims: list[tuple[float, Counter[str]]] = field(default_factory=list[tuple[float, Counter[str]]])

    def sent(self, until: float, now: float) -> None:
        """Note that all audio before ``until``, in seconds on the session's clock, is sent."""
        self._positions.append(until)
        self._times.append(now)

    def received(self, results: Results, now: float) -> None:
        """Count a message that came."""
        self._interims.append((now, Counter(_key(word.text) for word in results.words)))
        if not results.is_final:
            return
        counted: Counter[str] = Counter()
        for word in results.words:
            key = _key(word.text)
            counted[key] += 1
            end = self._end(word)
            if end is not None:
                # The n-th occurrence of a word has come once a message holds the word n times.
                seen = next(time for time, words in self._interims if words[key] >= counted[key])
                self.partial.append(seen - self.sent_at(end))
        end = self._end(results.words[-1]) if results.speech_final and results.words else None
        if end is not None:
            self.final.append(now - self.sent_at(end))
        self._interims.clear()

    def _end(self, word: Word) -> float | None:
        return word.end if self.true_end is None else self.true_end(word)

    def sent_at(self, position: float) -> float:
        """The time at which the sample at ``position`` seconds was sent; the time of the last send for one beyond the
        end."""
        index = bisect.bisect_left(self._positions, position)
        return self._times[min(index, len(self._times) - 1)]


def _key(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum() or character == "'")
