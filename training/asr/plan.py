"""A plan says which pieces of which utterances make one batch; the device then assembles the waveforms from it.

An utterance lies in the pool as (start, length); its cuts are samples at word boundaries, so that a row can hold a part
of it with the matching part of its text: truncated as a live stream is, or a span from its middle.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.asr.config import Config
from training.asr.lines import Lines
from training.asr.phones import Phones
from training.asr.prompt import Prompt
from training.asr.sentences import invented_name
from training.asr.splice import Recording, Splicer
from training.shards import RATE

SHORT_PREFIX, LONG_PREFIX = 16, 72  # prompt ids without and with a context
MUSIC = "music"


@dataclass(slots=True)
class Utterance:
    """start, length in samples of the pool; cuts: (sample, words before it), ascending; spans: cuts on both sides are
    exact."""

    start: int
    length: int
    text: str
    real: bool
    cuts: list[tuple[int, int]]
    speaker: str = ""  # where it is known who speaks


class Piece(NamedTuple):
    """What is taken from the pool for a stretch of a row. chunks: (start, length), one after the other; ends: nothing
    may follow in this row."""

    chunks: list[tuple[int, int]]
    words: list[str]
    ends: bool


@dataclass(slots=True)
class Plan:
    """One batch of U rows. segments [N, 7] float64: row, position, start, length, rate, gain, samples written."""

    seconds: int
    segments: NDArray[np.float64]
    length: NDArray[np.int64]  # [U] samples of each row that count
    prefix: NDArray[np.int64]  # [U, P]
    prefix_count: NDArray[np.int64]  # [U]
    targets: NDArray[np.int64]  # [U, S]
    mask: NDArray[np.float32]  # [U, S] 1 where the token is to be predicted
    ctc: NDArray[np.int64]  # transcripts of all rows, concatenated
    ctc_count: NDArray[np.int64]  # [U]
    phones: NDArray[np.int64]  # pronunciations of all rows, concatenated
    phone_count: NDArray[np.int64]  # [U], 0 where nobody asked for phones
    lines: NDArray[np.int64]  # [L, W] text without sound, template included
    line_mask: NDArray[np.float32]  # [L, W] 1 where the id is to be predicted


def target_width(seconds: int) -> int:
    """Fixed number of target ids of a row: suffix, language, end and up to 7 transcript tokens a second."""
    return -(-int(seconds * 7 + 12) // 16) * 16


class Planner:
    """Draws plans from a growing set of utterances."""

    def __init__(
        self,
        config: Config,
        prompt: Prompt,
        rare: Sequence[str],
        seed: int,
        phones: Phones | None = None,
        sentences: Sequence[str] = (),
    ) -> None:
        """sentences: texts for lines and for pieces spliced from the words of one reader; without any none are made."""
        self._b, self._prompt, self._rng, self._phones = config.batches, prompt, random.Random(seed), phones
        self._sources, self._voices = config.sources, config.voices
        self._rare_list, self._rare = list(rare), set(rare)
        self._utterances: list[Utterance] = []
        self._by_start: dict[int, Utterance] = {}
        self._groups: dict[str, list[int]] = {}
        self._prefix = prompt.prefix()
        self._splicer = Splicer(sentences) if sentences and self._b.splice_share else None
        self._lines = Lines(prompt, sentences, self._b.lines if sentences else 0, self._b.line_width, self._rng)
        self._readers: dict[str, list[str]] = {}  # source -> its voices with words enough

    def add(self, source: str, utterances: Sequence[Utterance]) -> None:
        """Add utterances of one source."""
        group = self._groups.setdefault(source, [])
        for u in utterances:
            group.append(len(self._utterances))
            self._utterances.append(u)
            if u.real:
                self._by_start[u.start] = u

    def align(self, cuts: dict[int, list[tuple[int, int]]]) -> None:
        """Word boundaries of real utterances, by their start in the pool."""
        for start, found in cuts.items():
            self._by_start[start].cuts = found
        if self._splicer is None:
            return
        self._splicer.clear()
        for source, group in self._groups.items():
            for u in (self._utterances[i] for i in group):
                if u.real and u.speaker:
                    self._splicer.add(f"{source} {u.speaker}", Recording(u.start, u.text.split(), u.cuts))
        self._readers = {}
        for voice in self._splicer.voices():
            self._readers.setdefault(voice.split(" ", 1)[0], []).append(voice)

    def _draw(self, source: str) -> Utterance:
        group = self._groups[source]
        return self._utterances[group[self._rng.randrange(len(group))]]

    def _piece(self, source: str) -> Piece:
        """An utterance of `source`: whole, truncated, a span of it; or words of one of its readers, spliced."""
        rng = self._rng
        readers = self._readers.get(source)
        if readers and self._splicer is not None and rng.random() < self._b.splice_share:
            spliced = self._splicer.piece(rng.choice(readers), rng)
            if spliced is not None:
                return Piece(*spliced, False)
        u = self._draw(source)
        words = u.text.split()
        if u.cuts and u.real:
            draw = rng.random()
            if draw < 0.1 and len(words) > 2:
                at, count = rng.choice(u.cuts)
                return Piece([(u.start, min(at + rng.randint(0, 800), u.length))], words[:count], True)
            if draw < 0.1 + self._b.span_share and len(words) > 4:
                edges = [(0, 0), *u.cuts, (u.length, len(words))]
                i = rng.randrange(len(edges) - 1)
                j = rng.randrange(i + 1, len(edges))
                if edges[j][1] - edges[i][1] >= 2:
                    low, high = edges[i], edges[j]
                    return Piece([(u.start + low[0], high[0] - low[0])], words[low[1] : high[1]], False)
        elif u.cuts and rng.random() < 0.2:
            at, count = rng.choice(u.cuts)
            length = min(max(at + rng.randint(-600, 900), 3000), u.length)
            return Piece([(u.start, length)], words[:count], True)
        return Piece([(u.start, u.length)], words, False)

    def _context(self, words: Sequence[str]) -> list[int]:
        """Prompt with 1..n words in the system turn; in half of the rows some of them are spoken, rare ones first."""
        rng = self._rng
        count = rng.randint(1, self._b.context_words)
        chosen: list[str] = []
        if words and rng.random() < 0.6:
            spoken = sorted(set(words), key=lambda w: (w not in self._rare, -len(w), rng.random()))
            spoken = [w for w in spoken if len(w) > 3]
            chosen = spoken[: min(rng.randint(1, 4), count)]
        while len(chosen) < count:
            chosen.append(invented_name(rng).lower() if rng.random() < 0.15 else rng.choice(self._rare_list))
        rng.shuffle(chosen)
        leading = rng.random() < 0.6
        while True:
            ids = self._prompt.prefix(chosen, leading_space=leading)
            if len(ids) <= LONG_PREFIX:
                return ids
            chosen.pop()

    def plan(self, progress: float, *, easy: bool) -> Plan:
        """One batch; `progress` 0..1 of the run moves the share of real speech, `easy` keeps to the two shortest
        rows."""
        b, rng = self._b, self._rng
        kinds = list(zip(b.row_seconds, b.row_share, strict=True))[: 2 if easy else None]
        seconds = rng.choices([k for k, _ in kinds], [p for _, p in kinds])[0]
        limit, rows = seconds * RATE, max(b.seconds_per_step // b.views // seconds, 1)
        weights = self.weights(progress)
        sources, shares = list(weights), list(weights.values())
        with_context = not easy and rng.random() < min(b.context_share / 0.6, 1.0)
        width = target_width(seconds)
        p = self._prompt
        room = width - len(p.suffix) - max(len(p.english), len(p.none)) - 1
        segments: list[tuple[float, ...]] = []
        lengths: list[int] = []
        texts: list[list[int]] = []
        empty: list[bool] = []
        prefixes: list[list[int]] = []
        spoken: list[list[int]] = []
        for row in range(rows):
            words: list[str] = []
            ids: list[int] = []
            if rng.random() < b.empty_share:
                length = rng.randint(RATE // 2, limit)
                if MUSIC in self._groups and rng.random() < 0.6:
                    self._background(segments, row, length, 10 ** rng.uniform(-1.5, 0))
                nothing = rng.random() < 0.7
            else:
                length = self._speech(segments, row, limit, room, sources, shares, words, ids)
                nothing = not words
                if MUSIC in self._groups and rng.random() < 0.06:
                    self._background(segments, row, length, 10 ** rng.uniform(-1.6, -0.6))
            lengths.append(min(max(length, RATE // 2), limit))
            texts.append(ids)
            spoken.append(self._phones.of(words) if self._phones else [])
            empty.append(nothing)
            prefixes.append(self._context(words) if with_context and rng.random() < 0.6 else self._prefix)
        return self._pack(
            seconds,
            width,
            segments,
            lengths,
            texts,
            spoken,
            empty,
            prefixes,
            LONG_PREFIX if with_context else SHORT_PREFIX,
        )

    def _speech(
        self,
        segments: list[tuple[float, ...]],
        row: int,
        limit: int,
        room: int,
        sources: list[str],
        shares: list[float],
        words: list[str],
        ids: list[int],
    ) -> int:
        """Fill one row with utterances and pauses; returns its length in samples."""
        rng = self._rng
        position = int(RATE * (rng.uniform(0, 0.5) if rng.random() < 0.75 else rng.uniform(0, 1.5)))
        first = rng.choices(sources, shares)[0]
        mixed = rng.random() < 0.4  # most rows stay within one kind of source
        enough = limit * (1.0 if rng.random() < 0.7 else rng.uniform(0.2, 1.0))
        cut, misses = False, 0
        while misses < 6:
            source = rng.choices(sources, shares)[0] if mixed else first
            piece = self._piece(source)
            cut = piece.ends
            rate = rng.uniform(0.87, 1.15) if source in self._sources else rng.uniform(0.82, 1.22)
            written = [int(length / rate) - 2 for _, length in piece.chunks]
            spoken = self._prompt.words(piece.words)
            total = sum(written)
            if min(written) < 500 or total < 800 or position + total > limit or len(ids) + len(spoken) > room:
                misses += 1
                cut = False
                if words and misses > 3:
                    break
                continue
            gain = 10 ** rng.uniform(-0.35, 0.35)
            for (start, length), count in zip(piece.chunks, written, strict=True):
                segments.append((row, position, start, length, rate, gain, count))
                position += count
            words += piece.words
            ids += spoken
            if cut or position > enough:
                break
            position += int(RATE * rng.choice((rng.uniform(0.0, 0.25), rng.uniform(0.2, 1.0))))
        return position if cut else min(position + int(RATE * rng.uniform(0, 0.8)), limit)

    def _background(self, segments: list[tuple[float, ...]], row: int, length: int, gain: float) -> None:
        u = self._draw(MUSIC)
        rate = self._rng.uniform(0.7, 1.3)
        written = min(int(u.length / rate) - 2, length)
        offset = self._rng.randrange(max(int(u.length - written * rate) - 4, 0) + 1)
        segments.append((row, 0, u.start + offset, u.length - offset, rate, gain, written))

    def weights(self, progress: float) -> dict[str, float]:
        """Share of every source that has utterances."""
        low, high = self._b.real_share
        real_share = low + (high - low) * progress
        real = {s: w for s, w in self._sources.items() if s in self._groups}
        made = {s: w for s, w in self._voices.items() if s in self._groups}
        if not made:
            real_share = 1.0
        total, synthetic = sum(real.values()), sum(made.values())
        out = {s: w / total * real_share for s, w in real.items()}
        out.update({s: w / synthetic * (1 - real_share) for s, w in made.items()})
        return out

    def _pack(
        self,
        seconds: int,
        width: int,
        segments: list[tuple[float, ...]],
        lengths: list[int],
        texts: list[list[int]],
        spoken: list[list[int]],
        empty: list[bool],
        prefixes: list[list[int]],
        prefix_width: int,
    ) -> Plan:
        p, rows = self._prompt, len(texts)
        targets = np.full((rows, width), p.pad, np.int64)
        mask = np.zeros((rows, width), np.float32)
        prefix = np.full((rows, prefix_width), p.pad, np.int64)
        for r in range(rows):
            row = [*p.suffix, *(p.none if empty[r] else p.english), *texts[r], p.end]
            targets[r, : len(row)] = row
            mask[r, len(p.suffix) : len(row)] = 1
            prefix[r, : len(prefixes[r])] = prefixes[r]
        return Plan(
            seconds,
            np.array(segments, np.float64).reshape(-1, 7),
            np.array(lengths, np.int64),
            prefix,
            np.array([len(x) for x in prefixes], np.int64),
            targets,
            mask,
            np.array([i for t in texts for i in t] or [0], np.int64),
            np.array([len(t) for t in texts], np.int64),
            np.array([i for s in spoken for i in s] or [0], np.int64),
            np.array([len(s) for s in spoken], np.int64),
            *self._lines.take(),
        )
