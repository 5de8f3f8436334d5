"""Synthetic speech with exact phone labels: flite's slt voice, whose phone durations are known because they made the
sound.
"""

import ctypes
import multiprocessing
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from training.asr.flite import Flite
from training.tts.config import FRAME, LABEL, RATE
from training.tts.phones import NUMBER, SILENCE, spoken
from training.tts.speech import Shard, Utterance, join, levelled, trim
from training.tts.text import sentences

_A_SHARD = 200  # sentences


class _Wave(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char_p), ("rate", ctypes.c_int), ("count", ctypes.c_int), ("channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    ]  # fmt: skip


class PhoneFlite(Flite):
    """Flite that also tells when every phone ends. Prosody is the voice's own."""

    def __init__(self, root: Path, voice: str) -> None:
        super().__init__(root, [voice])
        self._voice = ctypes.cast(self._voices[voice], ctypes.c_void_p)
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        for name, result, arguments in (
            ("flite_synth_text", pointer, [text, pointer]), ("utt_wave", ctypes.POINTER(_Wave), [pointer]),
            ("utt_relation", pointer, [pointer, text]), ("relation_head", pointer, [pointer]),
            ("item_next", pointer, [pointer]), ("item_feat_string", text, [pointer, text]),
            ("item_feat_float", ctypes.c_float, [pointer, text]), ("delete_utterance", None, [pointer]),
        ):  # fmt: skip
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments

    def say_phones(self, text: str) -> tuple[NDArray[np.float32], list[tuple[int, float]]]:
        """Samples at 24 kHz, full scale 1, and (phone, its end in seconds) in order."""
        library = self._library
        utterance = library.flite_synth_text(text.encode(), self._voice)
        wave = library.utt_wave(utterance).contents
        samples = np.ctypeslib.as_array(wave.samples, (wave.count,)).astype(np.float32) / 32768
        rate = int(wave.rate)
        phones: list[tuple[int, float]] = []
        item = library.relation_head(library.utt_relation(utterance, b"Segment"))
        while item:
            name = library.item_feat_string(item, b"name").decode()
            phones.append((NUMBER.get(name, SILENCE), float(library.item_feat_float(item, b"end"))))
            item = library.item_next(item)
        library.delete_utterance(utterance)
        return soxr.resample(samples, rate, RATE), phones


def label(phones: Sequence[tuple[int, float]], start: float, count: int) -> NDArray[np.uint8]:
    """Phone at the middle of each of `count` labels that begin `start` seconds into the recording; silence after its
    end.
    """
    ends = np.array([end for _, end in phones])
    at = start + (np.arange(count) + 0.5) * (LABEL / RATE)
    numbers = np.array([p for p, _ in phones] + [SILENCE], np.uint8)
    return numbers[np.searchsorted(ends, at)]


def utterance(
    engine: PhoneFlite, text: str, speaker: str, *, held_out: bool
) -> tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]:
    """One sentence, trimmed, levelled, labelled."""
    wave, phones = engine.say_phones(text)
    first, last = trim(wave)
    samples = levelled(wave[first:last])
    labels = label(phones, first / RATE, len(samples) // LABEL)
    made = Utterance(text, speaker, len(samples) // FRAME, tuple(spoken([p for p, _ in phones])), held_out)
    return made, samples, labels


def make_shard(engine: PhoneFlite, texts: Sequence[str], speaker: str, *, held_out: bool = False) -> Shard:
    return join(utterance(engine, text, speaker, held_out=held_out) for text in texts)


def _worker(
    number: int,
    workers: int,
    root: Path,
    voice: str,
    fiction: list[str],
    out: Path,
    shards: int,
    deadline: float,
    seed: int,
) -> None:
    engine = PhoneFlite(root, voice)
    for index in range(number, shards, workers):
        if time.time() > deadline:
            return
        texts = list(islice(sentences(fiction, seed * 100_003 + index), _A_SHARD))
        # The first shard is the held-out one: its sentences are those of no other seed.
        make_shard(engine, texts, voice, held_out=index == 0).save(out / f"{voice}-{index:05d}.npz")


def synthesise(
    root: Path, voice: str, fiction: list[str], out: Path, *, hours: float, workers: int, seconds: float, seed: int
) -> None:
    """Write about `hours` of speech as shards (a fifth of an hour each) from `workers` processes, for at most
    `seconds`.
    """
    count, deadline = max(2, round(hours * 5)), time.time() + seconds
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_worker, args=(i, workers, root, voice, fiction, out, count, deadline, seed))
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError(f"{voice}: a synthesis process failed; see above")
