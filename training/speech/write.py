"""Takes to shards: what a model that hears reads (training/asr/pool.py) and what a model that speaks reads
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

from training.speech.batches import Order
from training.speech.phonemes import SILENT, SPACE, VOCABULARY
from training.speech.script import groups
from training.speech.takes import HEARING_RATE, RATE, Checked, hearing, plausible, speaking
from training.tts.config import FRAME, LABEL, NUMBER, SILENCE, UNKNOWN
from training.tts.speech import Utterance, join, levelled
from training.tts.text import speakable

_FRAME_SECONDS = 0.025  # of a duration
_SHARD_SECONDS = 600
_LEAD_SECONDS = 0.04  # a word sounds so much before its durations say: measured at onsets behind pauses
_PAUSE = 5  # frames from which a space between words is silence
_HELD_OUT = 64  # one text of so many is kept from training a speaking model, beside some speakers
_PHONE = {VOCABULARY[letter]: number for letter, number in NUMBER.items() if letter in VOCABULARY}
_MARKS = frozenset(VOCABULARY[c] for c in "ˈˌ")
_LONG = VOCABULARY["ː"]


def word_starts(order: Order, durations: NDArray[np.int64], first: int, rate: int) -> list[tuple[int, int]]:
    """(sample, words before it) of every word but the first; samples count from `first`. [] where words and phonemes
    do not correspond. durations: with both pads."""
    if not order.aligned:
        return []
    ends = np.cumsum(durations)
    first += int(_LEAD_SECONDS * rate)
    at = [(int(ends[i] * _FRAME_SECONDS * rate) - first, n) for n, i in enumerate(groups(order.tokens)) if n]
    return [(sample, n) for sample, n in at if sample > 0]


def phone_labels(tokens: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A phone for every token: marks have their sound's; spaces are UNKNOWN."""
    labels = np.array([_PHONE.get(t, UNKNOWN if t == SPACE else SILENCE) for t in tokens.tolist()], np.uint8)
    for i in range(len(tokens) - 2, -1, -1):
        if tokens[i] in _MARKS:
            labels[i] = labels[i + 1]
    for i in range(1, len(tokens)):
        if tokens[i] == _LONG:
            labels[i] = labels[i - 1]
    return labels


def frame_labels(order: Order, durations: NDArray[np.int64], first: int, count: int) -> NDArray[np.uint8]:
    """`count` labels at 50 a second of what is heard, from sample `first` at 24 kHz as it was said; silence after the
    end."""
    labels = np.concatenate([[SILENCE], phone_labels(order.tokens), [SILENCE]]).astype(np.uint8)
    long_space = (labels == UNKNOWN) & (durations >= _PAUSE)
    frames = np.repeat(np.where(long_space, SILENCE, labels), durations)
    at = ((first + (np.arange(count) + 0.5) * LABEL * order.voice.pitch) / (RATE * _FRAME_SECONDS)).astype(np.int64)
    return np.append(frames, SILENCE)[at.clip(max=len(frames))].astype(np.uint8)


def quiet_ends(labels: NDArray[np.uint8], wave: NDArray[np.int16]) -> NDArray[np.uint8]:
    """Labels with silence where the sound has not begun and where it is over: Kokoro counts a pause after the last
    phone as its duration."""
    level = np.sqrt(np.square(wave.reshape(len(labels), LABEL).astype(np.float32)).mean(1))
    loud = np.flatnonzero(level > 0.01 * level.max())
    made = np.full_like(labels, SILENCE)
    made[loud[0] : loud[-1] + 1] = labels[loud[0] : loud[-1] + 1]
    return made


class Writer(ABC):
    """Keeps what is right of takes, and writes a shard of every ten minutes. name: of a share's shard, the file that is
    written last; counts: takes by what became of them; seconds: kept."""

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
        """A take's speech, which begins at sample `start`; durations: with both pads."""

    @abstractmethod
    def write(self, path: Path) -> None:
        """What was kept since the last shard."""

    def add(self, take: Checked, orders: list[Order], durations: NDArray[np.int64]) -> None:
        """One batch."""
        samples = take.samples.numpy()
        for row, order in enumerate(orders):
            start, end = int(take.starts[row]), int(take.ends[row])
            seconds = (end - start) / self.rate / order.voice.pitch
            phones = sum(token not in SILENT for token in order.tokens.tolist())
            if bool(take.silent[row]):
                verdict = "silent"
            elif bool(take.clipped[row]):
                verdict = "clipped"
            elif not plausible(phones, seconds):
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
    """`wNN_KKKK.pcm` (int16, 16 kHz) and, last, `wNN_KKKK.json`: [start, length, text, "kokoro", [[sample, words
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
    """Shards of training.tts.speech, `speech-SS-KKKK.npz`, all voices in each; a speaker's utterances lie together."""

    name = "speech-{:02d}-{:04d}.npz"
    rate, check = RATE, staticmethod(speaking)

    def __init__(self, folder: Path, share: int) -> None:
        super().__init__(folder, share)
        self._pieces: list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]] = []

    def keep(self, order: Order, said: NDArray[np.int16], start: int, durations: NDArray[np.int64]) -> None:
        voice, wave = order.voice, said.astype(np.float32) / 32768
        wave = levelled(wave if voice.pitch == 1 else soxr.resample(wave, RATE * voice.pitch, RATE))
        labels = quiet_ends(frame_labels(order, durations, start, len(wave) // LABEL), wave)
        held_out = voice.held_out or zlib.crc32(order.text.encode()) % _HELD_OUT == 0
        made = Utterance(speakable(order.spoken), voice.name, len(wave) // FRAME, held_out)
        self._pieces.append((made, wave, labels))

    def write(self, path: Path) -> None:
        join(sorted(self._pieces, key=lambda piece: piece[0].speaker)).save(path)
        self._pieces = []
