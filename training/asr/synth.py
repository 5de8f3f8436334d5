"""Synthetic speech made beside training: worker processes write shards of ten minutes, the trainer takes and deletes
them.

A shard is `wNN_KKKK.pcm` (int16, 16 kHz) and, written last, `wNN_KKKK.json`: a list of [start, length, transcript,
engine, [[sample, words before it], ...]]; word starts come from espeak only.
"""

import json
import math
import multiprocessing
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.asr.espeak import ACCENTS, VARIANTS, Espeak
from training.asr.flite import VOICES, Flite
from training.asr.sentences import random_sentence
from training.shards import RATE
from training.transcript import transcript

SHARD_SECONDS = 600
ESPEAK_SHARE = 0.6
FLITE_VOICES = ("slt", "rms", "awb", "kal16")
Item = tuple[int, int, str, str, list[tuple[int, int]]]


class Voices:
    """Both engines of one process, and a random rendering of a sentence."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self._rng, self._espeak, self._flite = rng, Espeak(root), Flite(root, FLITE_VOICES)

    def say(self, text: str) -> tuple[NDArray[np.int16], str, list[tuple[int, int]]] | None:
        """(samples, engine, word starts), trimmed to the speech and 50 ms around it; None where nothing usable came."""
        rng = self._rng
        if rng.random() < 0.2:
            text = transcript(text)
        words: list[tuple[int, int]] = []
        if rng.random() < ESPEAK_SHARE:
            engine, voice = "espeak", f"{rng.choice(ACCENTS)}+{rng.choice(VARIANTS)}"
            made = self._espeak.say(
                text,
                voice,
                speed=rng.uniform(120, 215),
                pitch=rng.uniform(15, 85),
                pitch_range=rng.uniform(20, 90),
                gap=rng.choice((0, 0, 0, 0, 1, 2, 4)),
            )
            if made is None:
                return None
            samples, words = made
        else:
            engine, voice = "flite", rng.choice(FLITE_VOICES)
            samples = self._flite.say(text, voice, stretch=rng.uniform(0.8, 1.35), pitch=rng.uniform(*VOICES[voice]))
        loud = np.abs(samples)
        if len(samples) < RATE // 4 or loud.max() < 1:
            return None
        speech = np.flatnonzero(loud > 0.01 * loud.max())
        low, high = max(int(speech[0]) - 800, 0), min(int(speech[-1]) + 800, len(samples))
        scaled = (samples[low:high] * (12000 / loud.max())).astype(np.int16)
        return scaled, engine, [(at - low, n) for at, n in words if at > low]


def write_shard(folders: Sequence[Path], name: str, parts: Sequence[NDArray[np.int16]], items: Sequence[Item]) -> None:
    """The same shard into every folder, on one file system. What a trainer sees of it is whole."""
    pcm, words = folders[0] / f".{name}.pcm", folders[0] / f".{name}.json"
    np.concatenate(parts).tofile(pcm)
    words.write_text(json.dumps(items))
    for folder in folders:
        os.link(pcm, folder / f"{name}.pcm")
        os.link(words, folder / f"{name}.json")
    pcm.unlink()
    words.unlink()


def waiting(folder: Path, worker: int) -> int:
    """Shards of `worker` that nobody has taken."""
    return sum(1 for _ in folder.glob(f"w{worker:02d}_[0-9]*.json"))


def _worker(
    number: int, root: Path, text: Path, folders: list[Path], deadline: float, seed: int, hours: float, ahead: float
) -> None:
    rng = random.Random(seed * 1000 + number)
    fiction = text.read_text().splitlines()
    rng.shuffle(fiction)
    voices = Voices(root, rng)
    position = shard = 0
    made_hours = 0.0
    while time.time() < deadline and made_hours < hours:
        if all(waiting(folder, number) >= ahead for folder in folders):
            time.sleep(1)
            continue
        parts: list[NDArray[np.int16]] = []
        items: list[Item] = []
        length = 0
        # The first shards are short, so that training can begin.
        while length < RATE * min(SHARD_SECONDS, 60 * (shard + 1)) and time.time() < deadline:
            sentence = random_sentence(rng, fiction, position)
            position += 1
            said, made = transcript(sentence), voices.say(sentence)
            if not said or made is None or len(made[0]) > 30 * RATE:
                continue
            samples, engine, words = made
            items.append((length, len(samples), said, engine, words))
            parts.append(samples)
            length += len(samples)
        if items:
            write_shard(folders, f"w{number:02d}_{shard:04d}", parts, items)
            made_hours += length / RATE / 3600
        shard += 1


def synthesise(
    root: Path,
    text: Path,
    out: list[Path],
    workers: int,
    seconds: float,
    seed: int = 1,
    hours: float = 1e9,
    ahead: float = math.inf,
) -> None:
    """Write shards to `out` (the same ones into every folder, on one file system) for `seconds`, or until there are
    `hours`, from `workers` processes; one of which `ahead` shards lie untaken in every folder waits. `text`: one
    sentence a line."""
    for folder in out:
        folder.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + seconds
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_worker, args=(i, root, text, out, deadline, seed, hours / workers, ahead))
        for i in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
