"""When each word of a piece was spoken, from its text and the loudness of its sound.

A talker reads text tokens ahead of the sound that it makes of them, and tells nowhere which frame belongs to which
word. So the times are found afterwards: the words lie in the piece's sound in order, each about as long as its letters
ask for, and people (and models) part words where the sound is weak, above all at marks. :func:`place_words` finds the
boundaries that fit both best, by dynamic programming over steps of 20 ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt

from codec.events import SpokenWord
from codec.text.pieces import Fragment

Floats = npt.NDArray[np.float32]

STEP_SECONDS: Final = 0.02
"""How long a step of the loudness is: half a short vowel, so that the dip between two words is seen."""
QUIET: Final = 10 ** (-40 / 20)
"""RMS of a step below which nobody speaks: 20 dB below the weakest vowel of speech at −20 LUFS."""
LEAST_SECONDS: Final = 0.04
"""How long a word lasts at least: an "a" is hardly shorter."""
_VOWELS: Final = frozenset("aeiouyAEIOUY")
_VOWEL_RUN: Final = 1.0
_CONSONANT: Final = 0.7
_WORD: Final = 1.6
"""Length of a run of vowels (a syllable), of a consonant and of any word besides, in proportion to each other."""
_WEAK: Final = 0.7
_WEAK_WORDS: Final = frozenset(
    "a an and are as at be before by for from had has he her his i in is it its not of on or our so than that the"
    " their they this to was we were with you".split()
)
"""How long words that are seldom stressed last, as shares of what their letters would take."""
_SPREAD: Final = 0.3
"""By how much of its expected length a word is usually longer or shorter."""
_LOUD: Final = 0.05
"""What a boundary costs for each decibel by which its step is louder than the weakest one near it."""
_PAUSED: Final = 4.0
_QUIETED: Final = 0.8
"""What a boundary in a pause saves, after a mark and elsewhere. These numbers fit best to the word times that the
hearing model finds in two dozen sentences of one voice: .065 s away in the mean; the tests ask another voice."""
_WANDER: Final = 75.0
"""Steps of speech, 1.5 s, that a boundary may lie away from where lengths alone would put it; it bounds the work."""
_NEVER: Final = 1e12
"""Cost of what must not be."""


class Loudness:
    """RMS of a piece's sound in steps of ``STEP_SECONDS``, as the sound is made."""

    def __init__(self, rate: int) -> None:
        """``rate``: samples a second of what is fed."""
        self._step = round(STEP_SECONDS * rate)
        self._rest = np.empty(0, np.float32)
        self._levels: list[float] = []

    def feed(self, samples: Floats) -> None:
        """Take in the samples that follow, float32."""
        held = np.concatenate([self._rest, samples])
        whole = len(held) // self._step * self._step
        blocks = held[:whole].reshape(-1, self._step).astype(np.float64)
        self._levels += np.sqrt(np.mean(np.square(blocks), axis=1)).tolist()
        self._rest = held[whole:]

    @property
    def levels(self) -> npt.NDArray[np.float64]:
        """The RMS of each step; an unfinished last step is left out."""
        return np.array(self._levels, np.float64)


@dataclass(slots=True)
class _Written:
    """One written word as it is spoken."""

    text: str
    start_char: int
    end_char: int
    marked: bool
    """A mark follows, where a reader pauses."""


def place_words(
    fragments: Sequence[Fragment], levels: npt.NDArray[np.float64], at: float, speed: float
) -> tuple[SpokenWord, ...]:
    """The words of a piece with their times.

    Args:
        fragments: all of the piece, in order; those of one written word or expression are one word here.
        levels: as :attr:`Loudness.levels` has them.
        at: when the piece's sound begins, in seconds of the session.
        speed: of the session's sound: what lasts a second in ``levels`` lasts ``1 / speed`` there.
    """
    words = _written(fragments)
    loud = np.flatnonzero(levels > QUIET)
    if not words or not len(loud):
        return ()
    first, last = int(loud[0]), int(loud[-1]) + 1
    edges = _edges(words, levels[first:last]) + first
    spoken: list[SpokenWord] = []
    places: list[int] = edges.tolist()
    for word, start, end in zip(words, places[:-1], places[1:], strict=True):
        inside = np.flatnonzero(levels[start:end] > QUIET)  # A pause at the word's end is not part of it.
        until = start + int(inside[-1]) + 1 if len(inside) else end
        begin = start + int(inside[0]) if len(inside) else start
        times = (at + step * STEP_SECONDS / speed for step in (begin, until))
        spoken.append(SpokenWord(word.text, word.start_char, word.end_char, *times))
    return tuple(spoken)


def _written(fragments: Sequence[Fragment]) -> list[_Written]:
    words: list[_Written] = []
    for fragment in fragments:
        text = fragment.text.strip()
        if words and (not any(c.isalnum() for c in text) or words[-1].start_char == fragment.start):
            words[-1].text += text if not any(c.isalnum() for c in text) else fragment.text
            words[-1].end_char = max(words[-1].end_char, fragment.end)
            words[-1].marked = words[-1].marked or fragment.marked
        elif text:
            # A mark that an alphabet's fragments begin with belongs to the word before.
            body = text.lstrip(",.;:!?…—")
            if words:
                words[-1].text += text[: len(text) - len(body)]
                words[-1].marked = words[-1].marked or len(body) < len(text)
            words.append(
                _Written(body.strip(), fragment.start, fragment.end, fragment.marked or body[-1:] in ",.;:!?…")
            )
    return words


def _length(text: str) -> float:
    """How long a word is, as a number without a unit: only the proportions between words count."""
    length, vowel = _WORD, False
    for c in text:
        if not c.isalnum():
            vowel = False
        elif not c.isascii():
            length, vowel = length + _VOWEL_RUN + _CONSONANT, False  # A letter of another script is about a syllable.
        elif c in _VOWELS:
            length, vowel = length + (0.4 if vowel else _VOWEL_RUN), True
        else:
            length, vowel = length + _CONSONANT, False
    return length * (_WEAK if text.strip(" ,.;:!?").lower() in _WEAK_WORDS else 1.0)


def _edges(words: Sequence[_Written], levels: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Where the words begin, and where the last ends: int64 [words + 1], in steps."""
    steps, count = len(levels), len(words)
    if steps < 2 * count:
        return np.round(np.linspace(0, steps, count + 1)).astype(np.int64)
    decibels = 20 * np.log10(np.maximum(levels, QUIET / 10))
    quiet = levels <= QUIET
    # Time that is spoken: a pause makes no word longer.
    clock = np.concatenate([[0.0], np.cumsum(~quiet)])
    parts = [_length(word.text) for word in words]
    expected = [part * float(clock[-1]) / sum(parts) for part in parts]
    around = 6  # How many steps are searched on both sides: a syllable.
    padded = np.pad(decibels, around, mode="edge")
    weakest = np.lib.stride_tricks.sliding_window_view(padded, 2 * around + 1).min(axis=1)
    loud = np.concatenate([_LOUD * (decibels - weakest), [0.0]])
    loud[:-1][quiet] = 0.0
    least = max(1, round(LEAST_SECONDS / STEP_SECONDS))
    pause = np.concatenate([quiet, [False]]).astype(np.float64)
    froms, best = np.zeros(1, np.int64), np.zeros(1)
    came: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
    for place, ends in enumerate(accumulate(expected)):
        if place == count - 1:
            tos = np.full(1, steps, np.int64)
        else:
            low, high = (int(np.searchsorted(clock, edge)) for edge in (ends - _WANDER, ends + _WANDER))
            tos = np.arange(low, min(high, steps - 1) + 1, dtype=np.int64)
        gone = (clock[tos][None, :] - clock[froms][:, None] - expected[place]) / (_SPREAD * expected[place] + 1.0)
        cost = best[:, None] + gone**2
        cost[tos[None, :] - froms[:, None] < least] = _NEVER
        choice: npt.NDArray[np.int64] = np.argmin(cost, axis=0)
        came.append((tos, froms[choice]))
        best = cost[choice, np.arange(len(tos))]
        if place < count - 1:
            best = best + loud[tos] - pause[tos] * (_PAUSED if words[place].marked else _QUIETED)
        froms = tos
    edges = np.empty(count + 1, np.int64)
    edges[count] = steps
    for place in range(count - 1, -1, -1):
        tos, starts = came[place]
        edges[place] = starts[int(edges[place + 1]) - int(tos[0])]
    return np.maximum.accumulate(edges)  # Words in a crowd may have found no room.
