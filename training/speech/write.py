"""Takes become shards: what a model that hears reads (training/asr/pool.py), and what a model that speaks reads
(training/tts/speech.py).

Writers get a checked batch in the processor's memory and run in threads of their own beside the GPU.
"""

import json
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray
from torch import Tensor

from codec.sounds.line import MARKS
from training.speech.batches import Order
from training.speech.script import groups
from training.speech.sounds import SILENT, SPACE, VOCABULARY
from training.speech.takes import AFTER, BEFORE, HEARING_RATE, RATE, Checked, hearing, plausible, speaking
from training.tts.config import FRAME, LABEL, NUMBER, SILENCE, UNKNOWN
from training.tts.speech import Utterance, join, levelled

# A duration's frame lasts so many seconds.
_FRAME_SECONDS = 0.025
_SHARD_SECONDS = 600
"""A shard is ended once it has so many seconds."""
# A word sounds so many seconds before its durations say, as was measured at onsets behind pauses.
_LEAD_SECONDS = 0.04
# From so many frames on a space between words is silence.
_PAUSE = 5
# One text in so many is kept from training a speaking model, beside some speakers.
_HELD_OUT = 64
_PHONE = {VOCABULARY[letter]: number for letter, number in NUMBER.items() if letter in VOCABULARY}
_MARKS = frozenset(VOCABULARY[c] for c in "ˈˌ")
_LONG = VOCABULARY["ː"]
_MARK_TOKENS = frozenset(VOCABULARY[c] for c in MARKS)
# So many seconds of sound after the last phone are too many: the voice babbled on.
_RUNS_ON = 0.3
# The chances that a line with such a mark is parted at it: at a comma and its like, at the end of a sentence, and after
# one or two words. The runtime parts text at the same places, most often behind a sentence and behind short ones.
_PARTED, _PARTED_ENDS, _PARTED_SHORT = 0.35, 0.5, 0.75
# Below so much of the loudest 10 ms it is quiet, and so many of these in a row are a pause.
_QUIET, _LEAST_PAUSE = 0.06, 6


def word_starts(order: Order, durations: NDArray[np.int64], first: int, rate: int) -> list[tuple[int, int]]:
    """Give (sample, words before it) of every word but the first, with samples counted from `first`. It is [] where
    words and phonemes do not correspond. durations: with both pads."""
    if not order.aligned:
        return []
    ends = np.cumsum(durations)
    first += int(_LEAD_SECONDS * rate)
    at = [(int(ends[i] * _FRAME_SECONDS * rate) - first, n) for n, i in enumerate(groups(order.tokens)) if n]
    return [(sample, n) for sample, n in at if sample > 0]


def phone_labels(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Give a phone for every token. A sign of stress or length has its sound's; spaces are UNKNOWN."""
    labels = np.array([_PHONE.get(t, UNKNOWN if t == SPACE else SILENCE) for t in tokens.tolist()], np.uint8)
    for i in range(len(tokens) - 2, -1, -1):
        if tokens[i] in _MARKS:
            labels[i] = labels[i + 1]
    for i in range(1, len(tokens)):
        if tokens[i] == _LONG:
            labels[i] = labels[i - 1]
    return labels


def frame_labels(order: Order, durations: NDArray[np.int64], first: int, count: int) -> NDArray[np.uint8]:
    """Give `count` labels at 50 a second of what is heard, from sample `first` at 24 kHz as it was said, and silence
    after the end."""
    labels = np.concatenate([[SILENCE], phone_labels(order.tokens), [SILENCE]]).astype(np.uint8)
    long_space = (labels == UNKNOWN) & (durations >= _PAUSE)
    frames = np.repeat(np.where(long_space, SILENCE, labels), durations)
    at = ((first + (np.arange(count) + 0.5) * LABEL * order.voice.pitch) / (RATE * _FRAME_SECONDS)).astype(np.int64)
    return np.append(frames, SILENCE)[at.clip(max=len(frames))].astype(np.uint8)


def quiet_ends(labels: NDArray[np.uint8], wave: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Give labels with silence where the sound has not begun and where it is over, because Kokoro counts a pause after
    the last phone as its duration."""
    level = np.sqrt(np.square(wave.reshape(len(labels), LABEL).astype(np.float32)).mean(1))
    loud = np.flatnonzero(level > 0.01 * level.max())
    made = np.full_like(labels, SILENCE)
    made[loud[0] : loud[-1] + 1] = labels[loud[0] : loud[-1] + 1]
    return made


class Writer(ABC):
    """A writer keeps what is right of takes, and writes a shard of every ten minutes. name: the shard's file that is
    written last; counts: takes by what became of them; seconds: those that were kept."""

    name: str
    rate: int
    check: Callable[[Tensor], Checked]

    def __init__(self, folder: Path, share: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._share, self._shard = folder, share, 0
        self.counts: Counter[str] = Counter()
        self.seconds = self._written = 0.0

    @abstractmethod
    def keep(self, order: Order, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]) -> None:
        """Keep a take's speech, which begins at sample `start`. durations: with both pads."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """Write what was kept since the last shard."""

    def runs_on(self, order: Order, end: int, durations: NDArray[np.int64]) -> bool:
        """Whether speech that ends at a sample (with its margin) is longer than its phones are."""
        return False

    def add(self, take: Checked, orders: list[Order], durations: NDArray[np.int64]) -> None:
        """Take one batch."""
        samples = take.samples.numpy()
        for row, order in enumerate(orders):
            start, end = int(take.starts[row]), int(take.ends[row])
            seconds = (end - start) / self.rate / order.voice.pitch
            phones = sum(token not in SILENT for token in order.tokens.tolist())
            if bool(take.silent[row]):
                verdict = "silent"
            elif bool(take.clipped[row]):
                verdict = "clipped"
            elif not plausible(phones, seconds) or self.runs_on(order, end, durations[row]):
                verdict = "implausible length"
            else:
                verdict = "kept"
                self.seconds += seconds
                self.keep(order, samples[row, start:end], start, durations[row, : len(order.tokens) + 2])
                if self.seconds - self._written >= _SHARD_SECONDS:
                    self.finish()
            self.counts[verdict] += 1

    def finish(self) -> None:
        """Write what there is as a shard."""
        if self.seconds > self._written:
            while (path := self._folder / self.name.format(self._share, self._shard)).exists():
                self._shard += 1
            self.write(path)
            self._written = self.seconds


class HearingWriter(Writer):
    """Writes `wNN_KKKK.pcm` (int16, 16 kHz) and, last, `wNN_KKKK.json`: [start, length, text, "kokoro", [[sample, words
    before it], ...]] of every take."""

    name = "w{:02d}_{:04d}.json"
    rate, check = HEARING_RATE, staticmethod(hearing)

    def __init__(self, folder: Path, share: int) -> None:
        super().__init__(folder, share)
        self._parts: list[NDArray[np.int16]] = []
        self._items: list[tuple[int, int, str, str, list[tuple[int, int]]]] = []

    def keep(self, order: Order, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]) -> None:
        words = word_starts(order, durations, start, HEARING_RATE)
        at = self._items[-1][0] + self._items[-1][1] if self._items else 0
        self._items.append((at, len(said), order.text, "kokoro", words))
        self._parts.append(said)

    def write(self, path: Path) -> None:
        np.concatenate(self._parts).tofile(path.with_suffix(".pcm"))
        path.with_suffix(".part").write_text(json.dumps(self._items))
        path.with_suffix(".part").rename(path)
        self._parts, self._items = [], []


class SpeakingWriter(Writer):
    """Writes shards of training.tts.speech, `speech-SS-KKKK.npz`, with all voices in each; a speaker's utterances lie
    together.

    Some lines are parted at a mark inside where they pause. What ends at a comma then sounds as it does before more,
    and a short sentence as it does among others. That is how the runtime parts text.
    """

    name = "speech-{:02d}-{:04d}.npz"
    rate, check = RATE, staticmethod(speaking)

    def __init__(self, folder: Path, share: int) -> None:
        super().__init__(folder, share)
        self._pieces: list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]] = []
        self._rng = np.random.default_rng([share, len(str(folder))])

    def runs_on(self, order: Order, end: int, durations: NDArray[np.int64]) -> bool:
        last = max(i for i, token in enumerate(order.tokens.tolist()) if token not in SILENT)
        said = durations[: last + 2].sum() * _FRAME_SECONDS
        return end / RATE - AFTER > said + _RUNS_ON

    def keep(self, order: Order, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]) -> None:
        for sounds, begin, end in self._parted(order, said, start, durations):
            self._keep(order, sounds, said[begin:end], start + begin, durations)

    def _parted(
        self, order: Order, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]
    ) -> list[tuple[str, int, int]]:
        """Give (sounds, samples from, to) of the whole line, or of what stands before and after one of its marks."""
        whole = [(order.sounds, 0, len(said))]
        inner = [i for i, c in enumerate(order.sounds[:-2]) if c in MARKS]
        if not inner:
            return whole
        number = int(self._rng.integers(len(inner)))
        at = inner[number]
        before, after = order.sounds[: at + 1], order.sounds[at + 2 :]
        chance = _PARTED_SHORT if before.count(" ") < 3 else _PARTED_ENDS if order.sounds[at] in ".?!…" else _PARTED
        if self._rng.random() >= chance:
            return whole
        place = [i for i, token in enumerate(order.tokens.tolist()) if token in _MARK_TOKENS][number]
        ends = np.cumsum(durations) * _FRAME_SECONDS * RATE - start
        pause = longest_pause(
            said, int(ends[place] - 0.08 * RATE), int(ends[min(place + 2, len(ends) - 1)] + 0.15 * RATE)
        )
        if pause is None:
            return whole
        low, high = pause
        return [
            (before, 0, min(low + int(AFTER * RATE), high)),
            (after, max(high - int(BEFORE * RATE), low), len(said)),
        ]

    def _keep(
        self, order: Order, sounds: str, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]
    ) -> None:
        voice, wave = order.voice, said.astype(np.float32) / 32768
        wave = levelled(wave if voice.pitch == 1 else soxr.resample(wave, RATE * voice.pitch, RATE))
        labels = quiet_ends(frame_labels(order, durations, start, len(wave) // LABEL), wave)
        held_out = voice.held_out or zlib.crc32(order.text.encode()) % _HELD_OUT == 0
        made = Utterance(f" {sounds}", voice.name, len(wave) // FRAME, held_out)
        self._pieces.append((made, wave, labels))

    def write(self, path: Path) -> None:
        join(sorted(self._pieces, key=lambda piece: piece[0].speaker)).save(path)
        self._pieces = []


def longest_pause(said: NDArray[np.int16], low: int, high: int) -> tuple[int, int] | None:
    """Find where it is quiet longest between two samples at 24 kHz, if that is long enough to part what is said
    there."""
    hop = RATE // 100
    low = max(low // hop, 0)
    level = np.sqrt(np.square(said[: len(said) // hop * hop].reshape(-1, hop).astype(np.float32)).mean(1))
    quiet = level[low : high // hop] < _QUIET * level.max()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], quiet, [False]]).astype(np.int8)))
    runs = [(int(b - a), int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    if not runs or max(runs)[0] < _LEAST_PAUSE:
        return None
    _, begin, end = max(runs)
    return (low + begin) * hop, (low + end) * hop
