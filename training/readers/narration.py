"""New sentences in one recorded voice, as shards that `training.tts encode` takes: an hour of recordings has too few.

Contract: what a hearing model's phone head does not find in the sound is thrown away; utterances have the speaker's
name, no phones and labels that count for nothing, and are never held out.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch.nn.functional import pad

from training.asr.spectrogram import HOP
from training.readers.bands import Bands, levelled
from training.readers.corpus import Corpus
from training.readers.judge import PhoneJudge
from training.readers.model import Reader
from training.readers.reading import Casting, Manner, Spoken, read_lines
from training.readers.script import Line
from training.shards import RATE
from training.tts import config as tts
from training.tts import speech
from training.tts.phones import UNKNOWN

_ROUND = 1024  # lines of which the best are kept: a shard
_THREADS = 6


@dataclass(frozen=True)
class Narrator:
    """Who reads, how, and who judges. keep: share of the lines that is kept, those whose phones are heard best."""

    model: Reader
    corpus: Corpus
    casting: Casting
    widths: Sequence[int]
    manner: Manner
    judge: PhoneJudge
    keep: float


def piece(read: Spoken, speaker: str) -> tuple[speech.Utterance, NDArray[np.int16], NDArray[np.uint8]]:
    """A line that was read, trimmed and levelled at 24 kHz, as `speech.join` takes it."""
    wave = soxr.resample(read.samples.astype(np.float32) / 32768, RATE, tts.RATE)
    first, last = speech.trim(wave)
    samples = speech.levelled(wave[first:last])
    labels = np.full(len(samples) // tts.LABEL, UNKNOWN, np.uint8)
    return speech.Utterance(read.line.text, speaker, len(samples) // tts.FRAME, (), False), samples, labels


def narrate(narrator: Narrator, script: Sequence[Line], speaker: str, hours: float, out: Path) -> float:
    """Shards of `speaker` until `hours` of them are kept, or the script ends; how many hours trimming leaves."""
    samples = 0

    def write(rows: Sequence[Spoken], path: Path) -> int:
        shard = speech.join(piece(one, speaker) for one in rows)
        shard.save(path)
        return sum(u.frames for u in shard.utterances)

    with ThreadPoolExecutor(_THREADS) as pool:
        writing: list[Future[int]] = []
        for number, at in enumerate(range(0, len(script), _ROUND)):
            n = narrator
            read = list(read_lines(n.model, n.corpus, n.casting, script[at : at + _ROUND], n.widths, n.manner))
            losses = n.judge.losses(read)
            kept = [read[i] for i in np.argsort(losses)[: round(n.keep * len(read))] if np.isfinite(losses[i])]
            samples += sum(len(one.samples) for one in kept)
            if not kept:
                continue
            writing.append(pool.submit(write, kept, out / f"{speaker}-read-{number:05d}.npz"))
            usual, worst = losses[np.isfinite(losses)].mean(), np.sort(losses)[len(kept) - 1]
            said = f"{samples / RATE / 3600:.2f} h before trimming"
            print(f"{speaker}: {said}; {usual:.3f} nats a phone, kept up to {worst:.3f}", flush=True)
            if samples >= hours * 3600 * RATE:
                break
        return sum(done.result() for done in writing) / tts.FRAMES_AN_HOUR


def by_bands(wave: NDArray[np.int16], bands: Bands) -> NDArray[np.int16]:
    """Samples int16 [n] at 24 kHz -> int16 [n] as what is read sounds: bands of 16 kHz and back, as loud, in time."""
    narrow = soxr.resample(wave.astype(np.float32) / 32768, tts.RATE, RATE)
    device = bands.window.device
    with torch.no_grad():
        level = levelled(torch.from_numpy(narrow).to(device))
        whole = pad(level, (0, -len(level) % HOP))
        sound = bands.sound(bands(whole[None]))[0, : len(narrow)].cpu().numpy()
    loud = np.sqrt(np.mean(np.square(narrow)))
    sound = sound * (loud / max(float(np.sqrt(np.mean(np.square(sound)))), 1e-9))
    wide = soxr.resample(sound.astype(np.float32), RATE, tts.RATE)[: len(wave)]
    return (np.pad(wide, (0, len(wave) - len(wide))).clip(-1, 1) * 32767).astype(np.int16)


def by_bands_all(speech_folder: Path, out: Path, bands: Bands) -> int:
    """Every shard of a folder by way of bands, under the same name; how many."""
    paths = speech.shards([speech_folder])
    for path in paths:
        pieces = ((u, by_bands(wave, bands), labels) for u, wave, labels in speech.load_shard(path).pieces())
        speech.join(pieces).save(out / path.name)
    return len(paths)
