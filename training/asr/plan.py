"""A plan says which pieces of which utterances make one batch. The device then assembles the waveforms from it.

Contract: a plan follows from the planner's utterances, its seed and the plan's number, and from nothing that was
planned before; every row fits its width. An utterance lies in the pool as (start, length). Its cuts are samples at word
boundaries, so that a row can hold a part of it with the matching part of its text: truncated as a live stream is, or a
span from its middle.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.asr.config import Config
from training.asr.prompt import Prompt
from training.shards import RATE
from training.speech.slots import invented_name

# A word that occurs less often than the first number serves as a keyterm; one that occurs less often than the second is
# as good as never heard, so that only the context can tell it.
RARE, _UNHEARD = 30, 4
# Samples of a word's beginning that a microphone which opens late may miss, 62 ms.
_LATE = 1000
# How many times a batch holds each row, augmented anew in each view.
VIEWS = 2
# How many prompt ids a row has room for, without and with a context.
SHORT_PREFIX, LONG_PREFIX = 16, 72
# Names of sources that are no corpus.
MUSIC, SYNTHETIC = "music", "synthetic"


@dataclass(slots=True)
class Utterance:
    """An utterance in the pool. start, length: in samples of the pool; text: "" where nobody knows it; cuts: (sample,
    words before it), ascending."""

    start: int
    length: int
    text: str
    real: bool
    cuts: list[tuple[int, int]]


class _Piece(NamedTuple):
    """What is taken of an utterance, from its sample `first` on. ends: nothing may follow it in its row."""

    whole: Utterance
    first: int
    length: int
    words: list[str]
    ends: bool


@dataclass(slots=True)
class Plan:
    """One batch of U rows. segments: [N, 7] float64: row, position, start, length, rate, gain, samples written."""

    seconds: int
    segments: NDArray[np.float64]
    length: NDArray[np.int64]  # [U]: how many samples of each row count
    prefix: NDArray[np.int64]  # [U, P]
    prefix_count: NDArray[np.int64]  # [U]
    targets: NDArray[np.int64]  # [U, S]
    mask: NDArray[np.float32]  # [U, S]: 1 where the token is to be predicted
    ctc: NDArray[np.int64]  # It holds the transcripts of all rows, one after another.
    ctc_count: NDArray[np.int64]  # [U]


@dataclass(slots=True)
class _Row:
    """A row that is being filled with at most `limit` samples and `room` transcript tokens. segments, background: as in
    a plan, without the row; nothing: no language is told; end: samples that count."""

    limit: int
    room: int
    segments: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    background: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    words: list[str] = field(default_factory=list[str])
    ids: list[int] = field(default_factory=list[int])
    prefix: list[int] = field(default_factory=list[int])
    nothing: bool = False
    end: int = 0


def target_width(seconds: int) -> int:
    """Give the fixed number of target ids of a row of so many seconds: suffix, language, end, and up to 7 transcript
    tokens a second. A row takes no utterance whose tokens would be too many."""
    return -(-int(seconds * 7 + 12) // 16) * 16


class Planner:
    """A planner draws plans."""

    def __init__(
        self,
        config: Config,
        prompt: Prompt,
        rare: Mapping[str, int],
        utterances: Mapping[str, Sequence[Utterance]],
        seed: int,
    ) -> None:
        """rare: words that serve as keyterms, and how often each occurs; utterances: those of every source."""
        self._b, self._prompt, self._seed, self._rng = config.batches, prompt, seed, random.Random(seed)
        worded = {source: [u for u in found if u.text] for source, found in utterances.items() if source != MUSIC}
        self._worded = {source: found for source, found in worded.items() if found}
        self._music = utterances.get(MUSIC, [])
        self._sources = config.sources
        self._rare_list, self._rare = list(rare), rare
        self._prefix = prompt.prefix()

    def _piece(self, utterances: Sequence[Utterance]) -> _Piece:
        """Take one of them: whole, truncated, a span of it, or begun a little late."""
        rng = self._rng
        u = rng.choice(utterances)
        words = u.text.split()
        if u.cuts and u.real:
            draw = rng.random()
            if draw < 0.1 and len(words) > 2:
                at, count = rng.choice(u.cuts)
                return _Piece(u, 0, min(at + rng.randint(0, 800), u.length), words[:count], True)
            if draw < 0.1 + self._b.span_share and len(words) > 4:
                edges = [(0, 0), *u.cuts, (u.length, len(words))]
                i = rng.randrange(len(edges) - 1)
                (low, before), (high, count) = edges[i], edges[rng.randrange(i + 1, len(edges))]
                if count - before >= 2:
                    return _Piece(u, low, high - low, words[before:count], False)
        elif u.cuts and rng.random() < 0.2:
            at, count = rng.choice(u.cuts)
            return _Piece(u, 0, min(max(at + rng.randint(-600, 900), 3000), u.length), words[:count], True)
        late = rng.randint(0, _LATE) if u.length > RATE and rng.random() < 0.3 else 0
        return _Piece(u, late, u.length - late, words, False)

    def _context(self, words: Sequence[str]) -> list[int]:
        """Give a prompt with up to n words in the system turn. In 0.6 of the rows some of them are spoken, the rarest
        first, and in every row where a spoken word is as good as never heard, because such a word can only be
        copied."""
        rng = self._rng
        count = rng.randint(1, self._b.context_words)
        chosen: list[str] = []
        # A dictionary is used and not a set, whose order is another one in every process.
        bare = dict.fromkeys(w.strip(".,?!:") for w in words)
        unheard = any(self._rare.get(w.lower(), RARE) < _UNHEARD for w in bare)
        if words and (unheard or rng.random() < 0.6):
            spoken = sorted(bare, key=lambda w: (self._rare.get(w.lower(), RARE), -len(w), rng.random()))
            spoken = [w for w in spoken if len(w) > 3]
            chosen = spoken[: min(rng.randint(1, 4), count)]
        while len(chosen) < count:
            name = invented_name(rng) if rng.random() < 0.15 else rng.choice(self._rare_list)
            chosen.append(name.capitalize() if rng.random() < 0.5 else name)
        rng.shuffle(chosen)
        leading = rng.random() < 0.6
        while True:
            ids = self._prompt.prefix(chosen, leading_space=leading)
            if len(ids) <= LONG_PREFIX:
                return ids
            chosen.pop()

    def plan(self, number: int) -> Plan:
        """Draw the batch of that number."""
        b, p = self._b, self._prompt
        self._rng = rng = random.Random(self._seed * 1_000_003 + number)
        seconds = rng.choices(b.row_seconds, b.row_share)[0]
        limit, count = seconds * RATE, max(b.seconds_per_step // VIEWS // seconds, 1)
        with_context = rng.random() < min(b.context_share / 0.6, 1.0)
        width = target_width(seconds)
        room = width - len(p.suffix) - max(len(p.english), len(p.none)) - 1
        rows = [_Row(limit, room) for _ in range(count)]
        for row in rows:
            if rng.random() < b.empty_share:
                row.end = rng.randint(RATE // 2, limit)
                if self._music and rng.random() < 0.6:
                    self._background(row, 10 ** rng.uniform(-1.5, 0))
                row.nothing = rng.random() < 0.7
            else:
                self._speech(row)
                row.nothing = not row.words
                if self._music and rng.random() < 0.08:
                    self._background(row, 10 ** rng.uniform(-1.6, -0.5))
            row.prefix = self._context(row.words) if with_context and rng.random() < 0.6 else self._prefix
        return self._pack(seconds, width, rows, LONG_PREFIX if with_context else SHORT_PREFIX)

    def _speech(self, row: _Row) -> None:
        """Fill a row with utterances and pauses."""
        rng, limit = self._rng, row.limit
        weights = self.weights()
        sources, shares = list(weights), list(weights.values())
        position = int(RATE * (rng.uniform(0, 0.5) if rng.random() < 0.75 else rng.uniform(0, 1.5)))
        first = rng.choices(sources, shares)[0]
        mixed = rng.random() < 0.4  # Most rows stay within one kind of source.
        enough = limit * (1.0 if rng.random() < 0.7 else rng.uniform(0.2, 1.0))
        cut, misses = False, 0
        while misses < 6:
            source = rng.choices(sources, shares)[0] if mixed else first
            piece = self._piece(self._worded[source])
            rate = rng.uniform(0.87, 1.15) if source in self._sources else rng.uniform(0.82, 1.22)
            written = int(piece.length / rate) - 2
            spoken = self._prompt.words(piece.words)
            if written < 800 or position + written > limit or len(row.ids) + len(spoken) > row.room:
                misses, cut = misses + 1, False
                if row.segments and misses > 3:
                    break
                continue
            cut = piece.ends
            gain = 10 ** rng.uniform(-0.35, 0.35)
            row.segments.append((position, piece.whole.start + piece.first, piece.length, rate, gain, written))
            position += written
            row.words += piece.words
            row.ids += spoken
            if cut or position > enough:
                break
            position += int(RATE * rng.choice((rng.uniform(0.0, 0.25), rng.uniform(0.2, 1.0))))
        row.end = position if cut else min(position + int(RATE * rng.uniform(0, 0.8)), limit)

    def _background(self, row: _Row, gain: float) -> None:
        u = self._rng.choice(self._music)
        rate = self._rng.uniform(0.7, 1.3)
        written = min(int(u.length / rate) - 2, row.end)
        offset = self._rng.randrange(max(int(u.length - written * rate) - 4, 0) + 1)
        row.background.append((0, u.start + offset, u.length - offset, rate, gain, written))

    def weights(self) -> dict[str, float]:
        """Give the share of every source that has utterances with a text."""
        known = self._worded
        made = {SYNTHETIC: 1 - self._b.real_share} if SYNTHETIC in known else {}
        real = {s: w for s, w in self._sources.items() if s in known}
        scale = (self._b.real_share if made else 1.0) / sum(real.values())
        return {s: w * scale for s, w in real.items()} | made

    def _pack(self, seconds: int, width: int, rows: list[_Row], prefix_width: int) -> Plan:
        p = self._prompt
        targets = np.full((len(rows), width), p.pad, np.int64)
        mask = np.zeros((len(rows), width), np.float32)
        prefix = np.full((len(rows), prefix_width), p.pad, np.int64)
        for r, row in enumerate(rows):
            ids = [*p.suffix, *(p.none if row.nothing else p.english), *row.ids, p.end]
            targets[r, : len(ids)] = ids
            mask[r, len(p.suffix) : len(ids)] = 1
            prefix[r, : len(row.prefix)] = row.prefix
        segments = [(r, *segment) for r, row in enumerate(rows) for segment in (*row.segments, *row.background)]
        return Plan(
            seconds,
            np.array(segments, np.float64).reshape(-1, 7),
            np.array([min(max(row.end, RATE // 2), row.limit) for row in rows], np.int64),
            prefix,
            np.array([len(row.prefix) for row in rows], np.int64),
            targets,
            mask,
            np.array([i for row in rows for i in row.ids], np.int64),
            np.array([len(row.ids) for row in rows], np.int64),
        )
