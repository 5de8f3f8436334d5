"""Who speaks: the words of finals get the numbers of the speakers who said them.

Contract: a speaker is a number of the session, 0 for the first who is heard. What a word is given follows from the
samples of its utterance and of those before it, so it is the same however the samples were cut. A given number never
changes: where two numbers turn out to be one person, ``SpeakerMerged`` says so. A speaker who sounds like one of the
people that the session knows (:class:`Person`) has their name from the final on with which that is sure, and where
finals before it told none, ``SpeakerNamed`` says so; a given name stays. A file can be judged a second time when all of
it was heard (:meth:`Speakers.settled`).

Windows of 1.5 s, one every half second, become *voice prints* (models/pocket-speakers) while the utterance is open.
When its words are known they are parted into *turns*: windows that sound alike are gathered, and each word goes to the
gathering that its time is nearest to. A turn then joins the speaker whose voice is most alike, or is a new one's. Voice
prints of a session are kept in memory as long as it is open, and nowhere else.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from itertools import pairwise
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from engines.lane import Steps, call
from engines.onnx import Graph
from streaming.events import SpeakerChange, SpeakerMerged, SpeakerNamed, Transcript, Word
from streaming.vad import SAMPLE_RATE

Floats = npt.NDArray[np.float32]

WINDOW: Final = SAMPLE_RATE * 3 // 2
"""How many samples a voice print is made of. In longer windows more speakers are mixed, shorter ones tell less."""
HOP: Final = SAMPLE_RATE // 2
"""How many samples lie between the beginnings of two windows."""
LEAST: Final = SAMPLE_RATE // 10
"""How many samples behind the last whole window are worth another one, which ends with the utterance."""

ALIKE: Final = 0.5
"""The mean cosine between the windows of two gatherings of an utterance from which on they are one."""
SWITCH: Final = 0.35
"""What a change of speaker between two words of an utterance must gain, in cosines; half of it behind a pause."""
PAUSE: Final = 0.3
"""Seconds without a word behind which a change of speaker is likelier. Up to so much is part of the word before."""
RECENT: Final = 64
"""How many turns are gathered anew with each turn: that takes some milliseconds."""
MERGE: Final = 0.75
"""The cosine from which on two speakers are one."""
TOGETHER: Final = 0.45
"""The mean cosine between the turns of two gatherings from which on they are one speaker's."""
NAMED: Final = 0.6
"""The cosine of a speaker's voice with a person's print from which on it is theirs: a stranger's of the same microphone
reaches it once in some hundreds of times, their own after ten seconds nearly always (notes/2026-11-speakers.md)."""
BEFORE_OTHERS: Final = 0.1
"""How much more alike it must be than with the print of anybody else who is known: half of the strangers that reach
``NAMED`` sound like two."""
NAMING: Final = 3.0
"""Seconds of words by which a voice is known well enough for a name."""
FOUNDING: Final = 1.5
"""Seconds of words that a turn needs to make a new speaker; a shorter one joins the most similar of those known."""
MOST_WEIGHT: Final = 4.0
"""Seconds that a turn counts at most in the voice of its speaker."""
SHARPNESS: Final = 12.0
"""What a cosine counts in the confidence, as the natural logarithm of odds."""
MOST_SPEAKERS: Final = 32
"""How many speakers a session tells apart. What further ones say is given to whom they resemble most."""
MOST_TURNS: Final = 1500
"""How many turns a file's second judgement looks at, an hour or two of talk: more would take 20 MB and a second. Later
turns go to whom the second judgement made of the speaker that they were given first."""


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """Somebody whom a session knows: their name, and their voice print, float32 [width] of length 1."""

    name: str
    print: Floats = field(repr=False)

    def is_like(self, other: "Person") -> bool:
        """Whether both may be the same: they have one name, or one voice."""
        return self.name.casefold() == other.name.casefold() or float(self.print @ other.print) >= NAMED


class SpeakerModel:
    """The weights of the speaker encoder, loaded once for all sessions. Thread-safe."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @classmethod
    def load(cls) -> Self:
        """Load the bundled graph, which runs in one thread: a window takes some ten milliseconds."""
        with as_file(files("models") / "pocket-speakers" / "encoder.onnx") as bundled:
            return cls(Graph(bundled, threads=1, provider="cpu"))

    def prints(self, windows: Sequence[Floats]) -> list[Floats]:
        """The voice print of each window, float32 [WINDOW] at 16 kHz: float32 [width], of length 1. Each window is a
        run of its own, so that its bits depend on nothing but its samples."""
        return [self._graph.run({"samples": window[None]})[0][0] for window in windows]


def span(number: int) -> tuple[int, int]:
    """The first sample of window ``number`` of an utterance, and the one after its last."""
    return number * HOP, number * HOP + WINDOW


def _windows(length: int) -> int:
    """How many windows lie in ``length`` samples."""
    return max(0, (length - WINDOW) // HOP + 1)


def _ends_between(length: int) -> bool:
    """Whether so much of an utterance of ``length`` samples lies behind its last window that it has a print too."""
    windows = _windows(length)
    return not windows or length - span(windows - 1)[1] >= LEAST


@dataclass(slots=True, eq=False)
class Prints:
    """The voice prints of an utterance so far.

    Attributes:
        windows: those of its windows, by number; some may end behind the utterance's end.
        last: an end that the utterance may have, in samples, and the print of what lies before it, which no window has
            whole. Where somebody falls silent it is made in advance, as the final is, so that nobody waits for it.
    """

    windows: list[Floats] = field(default_factory=list[Floats])
    last: tuple[int, Floats] | None = None

    def due(self, length: int, end: int | None) -> bool:
        """Whether another can be made of ``length`` samples, whose last sound may end at ``end``."""
        if length >= span(len(self.windows))[1]:
            return True
        told = self.last is not None and self.last[0] == end
        return end is not None and end <= length and not told and _ends_between(end)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn: its voice print, its seconds of words, and the number of the speaker it was given."""

    print: Floats
    seconds: float
    speaker: int

    @property
    def weight(self) -> float:
        """How much it counts in the voice of its speaker."""
        return min(max(self.seconds, 0.1), MOST_WEIGHT)


@dataclass(slots=True)
class _Speaker:
    """A speaker: the weighted sum of the prints of their turns, whose number they have now, the seconds of those turns,
    and their name once it is sure."""

    total: Floats
    number: int
    seconds: float = 0.0
    name: str | None = None
    heard: bool = False
    """Whether a final has told words of theirs."""


class Speakers:
    """The speakers of one session. Its calls are those of one thread at a time."""

    def __init__(self, model: SpeakerModel, people: Sequence[Person] = (), *, keep: bool) -> None:
        """``people`` are told by their names; ``keep`` the turns for :meth:`settled`."""
        self._model = model
        self._people = people
        self._keep = keep
        self._known: list[_Speaker] = []
        self._recent: list[_Turn] = []
        """The last turns that could make a speaker."""
        self._turns: list[_Turn] = []
        """All turns, if they are kept."""
        self._told: list[tuple[list[int | None], list[int]]] = []
        """For each final with words the turn of each word, None where that was not kept, and the speaker that was told
        first."""

    def add(self, prints: Prints, samples: Floats, end: int | None) -> Steps[None]:
        """Make the print that is due of the utterance ``samples``, float32 at 16 kHz."""
        first, after = span(len(prints.windows))
        if len(samples) >= after:
            prints.windows.append((yield from self._print(samples[first:after])))
        elif end is not None:
            prints.last = end, (yield from self._print(samples[max(0, end - WINDOW) : end]))

    def _print(self, samples: Floats) -> Steps[Floats]:
        """The voice print of ``samples``, float32 [≤ WINDOW]. Too few are repeated until there are enough."""
        window = samples if len(samples) == WINDOW else np.resize(samples, WINDOW)
        return (yield from call(self._model.prints, window))

    def tell(self, samples: Floats, prints: Prints, event: Transcript) -> Steps[tuple[Transcript, list[SpeakerChange]]]:
        """Give the words of a final their speakers.

        Args:
            samples: of the utterance up to its end, float32 at 16 kHz.
            prints: those made so far; what is missing is made.
            event: the final.

        Returns:
            The final with speakers, and who of them turned out to be one, or somebody who is known.
        """
        if not event.words:
            return event, []
        length = len(samples)
        while prints.due(length, length):
            yield from self.add(prints, samples, length)
        made = prints.windows[: _windows(length)]
        middles = [(span(number)[0] + WINDOW / 2) / SAMPLE_RATE for number in range(len(made))]
        if prints.last is not None and _ends_between(length):
            made.append(prints.last[1])
            middles.append((length - min(length, WINDOW) / 2) / SAMPLE_RATE)
        return self._told_by(np.stack(made), np.array(middles) + event.start, event)

    def settled(self, finals: Sequence[Transcript]) -> list[Transcript]:
        """Judge all turns again, now that all are known. ``finals`` are all of the session's that have words; they get
        new speakers, numbered in the order in which they speak. An hour of talk takes some tenths of a second. Where
        turns are not kept, the speakers stay."""
        if not self._keep:
            return list(finals)
        turns = self._turns
        long = [i for i, turn in enumerate(turns) if turn.seconds >= FOUNDING] or list(range(len(turns)))
        groups = gathered(np.stack([turns[i].print for i in long]), TOGETHER, MOST_SPEAKERS) if turns else []
        voices = [unit(_sum_of([turns[long[i]] for i in group])) for group in groups]
        names = [
            self._called(voice, sum(turns[long[i]].seconds for i in group))
            for voice, group in zip(voices, groups, strict=True)
        ]
        again = [int(np.argmax([voice @ turn.print for voice in voices])) for turn in turns]
        for number, group in enumerate(groups):
            for i in group:
                again[long[i]] = number
        became = {
            first: Counter(again[i] for i, turn in enumerate(turns) if turn.speaker == first).most_common(1)[0][0]
            for first in {turn.speaker for turn in turns}
        }
        # Who has one name is one speaker.
        keys = [
            [
                (self._known[first].name or ("new", first)) if group is None else (names[group] or group)
                for group, first in (
                    (became.get(first) if turn is None else again[turn], first)
                    for turn, first in zip(*told, strict=True)
                )
            ]
            for told in self._told
        ]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(key for line in keys for key in line))}
        called = {number: key if isinstance(key, str) else None for key, number in numbers.items()}
        lines = iter(keys)
        return [
            replace(
                final,
                words=tuple(
                    replace(word, speaker=numbers[key], speaker_name=called[numbers[key]])
                    for word, key in zip(final.words, next(lines), strict=True)
                ),
            )
            if final.words
            else final
            for final in finals
        ]

    # ---------------------------------------------------------------- one utterance

    def _told_by(
        self, prints: Floats, middles: npt.NDArray[np.float64], event: Transcript
    ) -> tuple[Transcript, list[SpeakerChange]]:
        """``prints`` [windows, width] lie around the seconds ``middles`` [windows] of the session."""
        places = parted(prints, middles, event.words)
        words = list(event.words)
        # A word lasts until the next one, unless that is far: aligned words end early.
        nexts = [min(after.start, word.end + PAUSE) for word, after in pairwise(words)]
        lasting = [max(end, word.end) - word.start for word, end in zip(words, [*nexts, words[-1].end], strict=True)]
        told: list[int | None] = [None] * len(words)
        for place in dict.fromkeys(places):
            mine = [i for i, one in enumerate(places) if one == place]
            seconds = sum(lasting[i] for i in mine)
            near = _weights(middles, [words[i] for i in mine]).sum(axis=0)
            voice = unit(near @ prints)
            speaker = self._speaker(voice, seconds)
            sure = self._sure(voice, speaker)
            if self._keep and len(self._turns) < MOST_TURNS:
                told = [len(self._turns) if i in mine else one for i, one in enumerate(told)]
                self._turns.append(_Turn(voice, seconds, speaker))
            for i in mine:
                words[i] = replace(words[i], speaker=speaker, speaker_confidence=sure)
        changes = [*self._merge(), *self._name()]
        if self._keep:
            self._told.append((told, [word.speaker or 0 for word in words]))
        spoken = [self._known[word.speaker or 0] for word in words]
        words = [replace(word, speaker_name=one.name) for word, one in zip(words, spoken, strict=True)]
        for one in spoken:
            one.heard = True
        return replace(event, words=tuple(words)), changes

    # ---------------------------------------------------------------- the session

    def _speaker(self, voice: Floats, seconds: float) -> int:
        """The number of the speaker of a turn, which is noted.

        All recent turns are gathered anew, with this one. It is said by whom most of its gathering was given, if most
        of what was given to them lies in it; else by somebody new. So an early mistake spoils nothing that follows.
        """
        alike = self._alike(voice)
        if not len(alike):
            number = 0
        elif seconds < FOUNDING:
            number = int(np.argmax(alike))
        else:
            number = self._gathered_with(voice)
            if number == len(self._known) >= MOST_SPEAKERS:
                number = int(np.argmax(alike))
        if number == len(self._known):
            self._known.append(_Speaker(np.zeros_like(voice), number))
        turn = _Turn(voice, seconds, number)
        if seconds >= FOUNDING or not self._recent:
            one = self._known[number]
            one.total = (one.total + turn.weight * voice).astype(np.float32)
            one.seconds += seconds
            self._recent = [*self._recent, turn][-RECENT:]
        return number

    def _gathered_with(self, voice: Floats) -> int:
        """The number of whoever said most of what is gathered with ``voice``; the next free one if it is nobody."""
        given = [(self._known[turn.speaker].number, turn.print, turn.weight) for turn in self._recent]
        heard = {number for number, _, _ in given}
        # Who has been silent for long counts by their voice as a whole.
        given += [
            (number, unit(one.total), MOST_WEIGHT)
            for number, one in enumerate(self._known)
            if one.number == number and number not in heard
        ]
        mine, most = dict[int, float](), dict[int, float]()
        for group in gathered(np.stack([*(one for _, one, _ in given), voice]), TOGETHER):
            here: dict[int, float] = {}
            for number, _, weight in (given[i] for i in group if i < len(given)):
                here[number] = here.get(number, 0.0) + weight
            for number, weight in here.items():
                most[number] = max(weight, most.get(number, 0.0))
            if len(given) in group:
                mine = here
        at_home = [number for number, weight in mine.items() if weight >= most[number]]
        return max(at_home, key=lambda number: (mine[number], -number), default=len(self._known))

    def _alike(self, voice: Floats) -> Floats:
        """The cosine of ``voice`` with each speaker; −1 with those that were merged."""
        return np.array(
            [unit(one.total) @ voice if one.number == i else -1.0 for i, one in enumerate(self._known)], np.float32
        )

    def _sure(self, voice: Floats, speaker: int) -> float:
        """The probability that it is ``speaker`` rather than another one or somebody new."""
        odds = np.exp(SHARPNESS * np.append(self._alike(voice), np.float32(TOGETHER)))
        return round(float(odds[speaker] / odds.sum()), 4)

    def _name(self) -> list[SpeakerChange]:
        """Name those of whom it is sure by now who they are; those who had no name in finals before are told."""
        told = list[SpeakerChange]()
        for number, one in enumerate(self._known):
            if one.name is None and one.number == number:
                one.name = self._called(unit(one.total), one.seconds)
                if one.name is not None and one.heard:
                    told.append(SpeakerNamed(number, one.name))
        return told

    def _called(self, voice: Floats, seconds: float) -> str | None:
        """The name of the one among the known people whose ``voice`` this is, after so many seconds; None where that is
        not sure."""
        if seconds < NAMING or not self._people:
            return None
        best = max(self._people, key=lambda one: float(one.print @ voice))
        alike, name = float(best.print @ voice), best.name
        # Whoever is stored by two names is known by the nearer one.
        others = (float(one.print @ voice) for one in self._people if not one.is_like(best))
        return name if alike >= max(NAMED, max(others, default=-1.0) + BEFORE_OTHERS) else None

    def _merge(self) -> list[SpeakerChange]:
        """Make one of all speakers who sound the same by now; the lower number stays."""
        merged: list[SpeakerChange] = []
        for i, one in enumerate(self._known):
            alike = self._alike(unit(one.total))
            for into in range(i):
                if one.number == i and alike[into] >= MERGE:
                    self._known[into].total = self._known[into].total + one.total
                    self._known[into].seconds += one.seconds
                    for other in self._known:
                        other.number = into if other.number == i else other.number
                    merged.append(SpeakerMerged(i, into))
        return merged


def parted(prints: Floats, middles: npt.NDArray[np.float64], words: Sequence[Word]) -> list[int]:
    """The turn of each word of an utterance, as a number of no further meaning.

    Args:
        prints: float32 [windows, width], each of length 1.
        middles: float64 [windows], the seconds in whose middle each window lies.
        words: in order, at least one.
    """
    found = gathered(prints, ALIKE)
    # A window on the boundary of two turns resembles neither: alone it is nobody's.
    places = [group for group in found if len(group) > 1] or found[:1]
    if len(places) == 1:
        return [0] * len(words)
    voices = np.stack([unit(prints[group].sum(axis=0)) for group in places])
    gains = _weights(middles, words) @ (prints @ voices.T)
    # Viterbi's search for the best sequence, whose changes cost something.
    score, back = gains[0].astype(np.float64), list[npt.NDArray[np.intp]]()
    for (before, after), gain in zip(pairwise(words), gains[1:], strict=True):
        cost = SWITCH / 2 if after.start - before.end >= PAUSE else SWITCH
        best = int(score.argmax())
        back.append(np.where(score >= score[best] - cost, np.arange(len(score)), best))
        score = np.maximum(score, score[best] - cost) + gain
    path = [int(score.argmax())]
    for step in reversed(back):
        path.append(int(step[path[-1]]))
    return path[::-1]


def _weights(middles: npt.NDArray[np.float64], words: Sequence[Word]) -> Floats:
    """How much each window tells of each word, float32 [words, windows]: the nearer, the more; each line's sum is 1."""
    at = np.array([(word.start + word.end) / 2 for word in words])
    far = np.abs(at[:, None] - middles[None])
    near = np.maximum(0.0, 1 - far / (0.5 * WINDOW / SAMPLE_RATE)) ** 2
    # What lies beyond all windows belongs to the nearest.
    near[np.arange(len(words)), far.argmin(axis=1)] += 1e-3
    return (near / near.sum(axis=1, keepdims=True)).astype(np.float32)


def gathered(prints: Floats, alike: float, most: int | None = None) -> list[list[int]]:
    """Gather voice prints: the two gatherings whose prints have the greatest mean cosine become one, as long as that is
    at least ``alike``, or there are more than ``most``.

    Args:
        prints: float32 [n, width], each of length 1.

    Returns:
        The places of the prints of each gathering, the largest first.
    """
    groups = [[i] for i in range(len(prints))]
    cosines = (prints @ prints.T).astype(np.float64)
    np.fill_diagonal(cosines, -2.0)
    sizes = np.ones(len(prints))
    nearest, left = cosines.argmax(axis=1), len(prints)
    while left > 1:
        tops = cosines[np.arange(len(groups)), nearest]
        a = int(tops.argmax())
        b = int(nearest[a])
        if tops[a] < alike and (most is None or left <= most):
            break
        row = (sizes[a] * cosines[a] + sizes[b] * cosines[b]) / (sizes[a] + sizes[b])
        row[[a, b]] = -2.0
        row[sizes == 0] = -2.0
        groups[a], groups[b] = groups[a] + groups[b], []
        sizes[a], sizes[b], left = sizes[a] + sizes[b], 0, left - 1
        cosines[a], cosines[:, a], cosines[b], cosines[:, b] = row, row, -2.0, -2.0
        stale = np.flatnonzero((nearest == a) | (nearest == b))
        nearest[stale] = cosines[stale].argmax(axis=1)
        nearest[a], nearest[b] = row.argmax(), a
        better = row > cosines[np.arange(len(groups)), nearest]
        nearest[better] = a
    return sorted((sorted(group) for group in groups if group), key=lambda group: (-len(group), group[0]))


def _sum_of(turns: Sequence[_Turn]) -> Floats:
    """The weighted sum of the prints of ``turns``."""
    weights = np.array([turn.weight for turn in turns], np.float32)
    return weights @ np.stack([turn.print for turn in turns])


def unit(vector: Floats) -> Floats:
    """``vector`` at length 1."""
    return vector / max(float(np.linalg.norm(vector)), 1e-9)
