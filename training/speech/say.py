"""Kokoro's own speech of given sentences, to hear what is learnt from it beside it."""

from pathlib import Path

import numpy as np
import soundfile
import torch

from training.speech.batches import Batches, Order
from training.speech.phonemes import Phonemes
from training.speech.script import ACCENTS
from training.speech.takes import RATE
from training.speech.voices import OWN, Voices
from training.speech.weights import load


def said(sentences: list[str], weights: Path, voice: str, out: Path, phonemes: Phonemes) -> None:
    """`NNN.wav` in `out` of every sentence, 24 kHz, at the pace and in the accent of one of our own voices."""
    where = torch.device("cpu")
    voices = Voices(weights / "voices.safetensors", where)
    batches = Batches(load(weights), voices, where, rows=1, seconds=0.0)  # each by itself, and at once
    own = voices.own(voice)
    out.mkdir(parents=True, exist_ok=True)
    for i, sentence in enumerate(sentences):
        tokens = np.array(phonemes.tokens(sentence, ACCENTS[own.british]), np.uint8)
        for one in batches.add(Order(sentence, sentence, tokens, own, 1.0, aligned=False)):
            soundfile.write(out / f"{i:03d}.wav", one.wave[0].numpy(), RATE)


def say(sentences: Path, /, *, weights: Path, voice: str, out: Path) -> None:
    """WAV files of sentences, numbers in words, one a line, as Kokoro says them with one of our own voices: for
    `bench.eval --beside` (needs espeak-ng). weights: folder that `convert` wrote."""
    import espeakng_loader

    if voice not in OWN:
        raise ValueError(f"{voice}: no voice of ours; there are {', '.join(OWN)}")
    phonemes = Phonemes(Path(espeakng_loader.get_library_path()), Path(espeakng_loader.get_data_path()))
    said(sentences.read_text(encoding="utf-8").splitlines(), weights, voice, out, phonemes)
