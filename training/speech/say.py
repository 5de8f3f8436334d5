"""Kokoro's own speech of given sentences, so that what is learnt from it can be heard beside it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile
import torch

from training.speech.batches import Batches, Order
from training.speech.script import ACCENTS
from training.speech.sounds import Sounds
from training.speech.takes import RATE
from training.speech.voices import OWN, Voices
from training.speech.weights import load


def speak(
    sentences: list[str], weights: Path, voice: str, out: Path, tokens: Callable[[str, str], Sequence[int]]
) -> int:
    """Write `NNN.wav` of every sentence into `out`, 24 kHz, at the pace and in the accent of one of our own voices, and
    give how many sentences were too long to be said. tokens: gives the phonemes of a text in an accent."""
    where = torch.device("cpu")
    voices = Voices(weights / "voices.safetensors", where)
    # Each sentence is a batch of its own, so that it is said at once.
    batches = Batches(load(weights), voices, where, rows=1, seconds=0.0)
    own = voices.own(voice)
    out.mkdir(parents=True, exist_ok=True)
    for i, sentence in enumerate(sentences):
        line = np.array(tokens(sentence, ACCENTS[own.british]), np.uint8)
        for one in batches.add(Order(sentence, line, own, 1.0, aligned=False)):
            soundfile.write(out / f"{i:03d}.wav", one.wave[0].numpy(), RATE)
    return batches.too_long


def say(sentences: Path, /, *, weights: Path, model: Path, lexicon: Path, voice: str, out: Path) -> None:
    """Write WAV files of sentences, one a line, as Kokoro says them with one of our own voices: for `bench.eval
    --beside`. weights: folder that `convert` wrote; model, lexicon: as for `prepare`."""
    if voice not in OWN:
        raise ValueError(f"{voice}: no voice of ours; there are {', '.join(OWN)}")
    lines = sentences.read_text(encoding="utf-8").splitlines()
    print(f"{speak(lines, weights, voice, out, Sounds.load(model, lexicon).tokens)} of {len(lines)} are too long")
