"""Takes to shards: what a model that hears reads (training/asr/pool.py) and what a model that speaks reads
(training/tts/speech.py).

Writers get a checked batch in the processor's memory and run in threads of their own beside the GPU.
"""

import json
import os
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from training.speech.batches import Order
from training.speech.phonemes import SILENT, SPACE, VOCABULARY
from training.speech.script import groups
from training.speech.takes import HEARING_RATE, RATE, Checked, plausible
from training.tts.config import FRAME, LABEL
from training.tts.phones import IPA, NUMBER, SILENCE, UNKNOWN
from training.tts.speech import Utterance, join, levelled

_FRAME_SECONDS = 0.025  # of a duration
_SHARD_SECONDS = 600
_LEAD_SECONDS = 0.04  # a word sounds so much before its durations say: measured at onsets behind pauses
_PAUSE = 5  # frames from which a space between words is silence
_HELD_OUT = 64  # one text of so many is kept from training a speaking model, beside some speakers
_PHONE = {VOCABULARY[letter]: NUMBER[name] for letter, name in IPA.items() if letter in VOCABULARY}
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
    labels = np.full(len(tokens), SILENCE, np.uint8)
    following = SILENCE
    for i in range(len(tokens) - 1, -1, -1):
        token = int(tokens[i])
        if token in _PHONE:
            following = _PHONE[token]
            labels[i] = following
        elif token in _MARKS:
            labels[i] = following
        elif token == SPACE:
            labels[i] = UNKNOWN
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


def sounds(order: Order) -> int:
    """Phones of an order: tokens that sound."""
    return sum(1 for t in order.tokens.tolist() if t not in SILENT)


class Tally:
    """Takes kept and dropped, by reason; seconds kept."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0

    def verdict(self, order: Order, take: Checked, row: int, seconds: float) -> bool:
        """Whether the take is kept."""
        if bool(take.silent[row]):
            reason = "silent"
        elif bool(take.clipped[row]):
            reason = "clipped"
        elif not plausible(sounds(order), seconds):
            reason = "implausible length"
        else:
            reason = "kept"
            self.seconds += seconds
        self.counts[reason] += 1
        return reason == "kept"


class HearingWriter:
    """`wNN_KKKK.pcm` (int16, 16 kHz) and, last, `wNN_KKKK.json`: [start, length, text, "kokoro", [[sample, words
    before it], ...]] of every take."""

    def __init__(self, folder: Path, share: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._share, self._shard = folder, share, 0
        while (folder / f"{self._name()}.json").exists():
            self._shard += 1
        self.tally = Tally()
        self._begin()

    def _name(self) -> str:
        return f"w{self._share:02d}_{self._shard:04d}"

    def _begin(self) -> None:
        self._parts: list[NDArray[np.int16]] = []
        self._items: list[tuple[int, int, str, str, list[tuple[int, int]]]] = []
        self._length = 0

    def add(self, take: Checked, orders: list[Order], durations: NDArray[np.int64]) -> None:
        """One batch."""
        samples = take.samples.numpy()
        for row, order in enumerate(orders):
            start, end = int(take.starts[row]), int(take.ends[row])
            if not self.tally.verdict(order, take, row, (end - start) / HEARING_RATE):
                continue
            words = word_starts(order, durations[row, : len(order.tokens) + 2], start, HEARING_RATE)
            self._items.append((self._length, end - start, order.text, "kokoro", words))
            self._parts.append(samples[row, start:end])
            self._length += end - start
            if self._length >= _SHARD_SECONDS * HEARING_RATE:
                self.finish()

    def finish(self) -> None:
        """Write what there is as a shard."""
        if not self._items:
            return
        pcm, words = (self._folder / f".{self._name()}.{kind}" for kind in ("pcm", "json"))
        np.concatenate(self._parts).tofile(pcm)
        words.write_text(json.dumps(self._items))
        os.replace(pcm, self._folder / f"{self._name()}.pcm")
        os.replace(words, self._folder / f"{self._name()}.json")
        self._shard += 1
        self._begin()


class SpeakingWriter:
    """Shards of training.tts.speech, `speech-SS-KKKK.npz`, all voices in each; a speaker's utterances lie together."""

    def __init__(self, folder: Path, share: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._share, self._shard = folder, share, 0
        self._pieces: list[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]] = []
        self._frames = 0
        self.tally = Tally()

    def add(self, take: Checked, orders: list[Order], durations: NDArray[np.int64]) -> None:
        """One batch."""
        samples = take.samples.numpy()
        for row, order in enumerate(orders):
            voice, start, end = order.voice, int(take.starts[row]), int(take.ends[row])
            if not self.tally.verdict(order, take, row, (end - start) / RATE / voice.pitch):
                continue
            said = samples[row, start:end].astype(np.float32) / 32768
            wave = levelled(said if voice.pitch == 1 else soxr.resample(said, RATE * voice.pitch, RATE))
            lasting = durations[row, : len(order.tokens) + 2]
            labels = quiet_ends(frame_labels(order, lasting, start, len(wave) // LABEL), wave)
            held_out = voice.held_out or zlib.crc32(order.text.encode()) % _HELD_OUT == 0
            made = Utterance(order.spoken, voice.name, len(wave) // FRAME, held_out)
            self._pieces.append((made, wave, labels))
            self._frames += made.frames
            if self._frames * FRAME >= _SHARD_SECONDS * RATE:
                self.finish()

    def finish(self) -> None:
        """Write what there is as a shard."""
        if not self._pieces:
            return
        while (path := self._folder / f"speech-{self._share:02d}-{self._shard:04d}.npz").exists():
            self._shard += 1
        join(sorted(self._pieces, key=lambda piece: piece[0].speaker)).save(path)
        self._pieces, self._frames = [], 0
