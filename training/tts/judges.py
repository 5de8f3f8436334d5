"""Judges of what the talker says: how natural it sounds (distillmos), how likely Whisper finds the written text of it,
and by how much a question rises (audio/pitch.py). None of them is ours.

They hear takes as the runtime gives them out, decoded without a past and with a soft beginning, at 16 kHz.
"""

import math
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from audio.pitch import rise
from codec.output import FADE_SECONDS, LEAD_SECONDS, LOUD
from training.asr.teacher import frames, load_teacher
from training.checkpoint import TOKENIZER
from training.learner import autocast
from training.lengths import by_length
from training.speech.numerals import figures, numerals
from training.speech.takes import HEARING_RATE, to_hearing_rate
from training.tts.config import FRAME, RATE
from training.tts.decoder import Decoder

Judge = Callable[[Sequence[NDArray[np.int16]], Sequence[str], Sequence[bool]], "Judgements"]
"""Takes, as codes int16 [frames, K], their texts, and whether they ask for yes or no -> what is thought of each."""
_PROMPT = "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"
_END = "<|endoftext|>"
# A batch has at most so many frames, the padding counted, and a take counts as so many of them at least, because
# Whisper hears 30 s of each.
_FRAMES, _LEAST = 6000, 40
# Samples at 16 kHz that distillmos was trained on. What is shorter is followed by silence, as its own code has it.
_HEARD = 122_880
# Samples of the end in which a rise is looked for.
_TAIL = HEARING_RATE * 7 // 5
_IGNORE = -100


class Judgements(NamedTuple):
    """What is thought of some takes, float64 [N] each. natural: 1 to 5; heard: log-probability of the text; rise:
    semitones, NaN where nobody asked or too little is voiced."""

    natural: NDArray[np.float64]
    heard: NDArray[np.float64]
    rise: NDArray[np.float64]

    def at(self, places: Sequence[int] | NDArray[np.int64]) -> "Judgements":
        """Give the judgements of some of the takes."""
        return Judgements(*(values[places] for values in self))


def load_distillmos(device: torch.device) -> Callable[[Tensor], Tensor]:
    """Give what maps samples float32 [B, 122880] at 16 kHz to opinions [B], from 1 to 5.

    Raises:
        ImportError: the package is missing.
    """
    if find_spec("distillmos") is None:
        raise ImportError("practise needs distillmos: pip install -e '.[natural]'")
    # It imports torchaudio only to load files, and torchaudio is not built for every torch. While it is imported an
    # empty module may stand in that place, and no longer: others would take it for the package.
    lacking = find_spec("torchaudio") is None
    if lacking:
        sys.modules["torchaudio"] = ModuleType("torchaudio")
    try:
        with redirect_stdout(sys.stderr):  # It prints where its weights are.
            model: Any = import_module("distillmos").ConvTransformerSQAModel(segmenting_in_forward=False)
    finally:
        if lacking:
            del sys.modules["torchaudio"]
    return model.to(device).eval().requires_grad_(False)


def spellings(text: str) -> list[str]:
    """Give a text as it stands, in the style of numbers that the hearing model learns, and with all numbers in digits,
    each spelling once. Whisper writes numbers in any of these ways, and what it hears is the same."""
    styled = numerals(text)
    return [text] if "#" in styled else list(dict.fromkeys((text, styled, figures(styled))))


def begun(wave: Tensor) -> Tensor:
    """Give waves [B, S] at RATE with the soft beginning of the runtime's pieces (codec/output.py)."""
    at = torch.arange(wave.shape[1], device=wave.device)[None]
    loud = (wave.abs() > LOUD) | (at >= round(LEAD_SECONDS * RATE))
    begin = loud.int().argmax(1, keepdim=True)
    return wave * (((at - begin) / (FADE_SECONDS * RATE)).clamp(0, 1) * (math.pi / 2)).sin().square()


class Judges:
    """All three, on one device. A question's pitch is found by processes, because each take of it costs 30 ms."""

    def __init__(self, teacher: Path, decoder: Decoder, device: torch.device) -> None:
        """teacher: folder of `training.asr whisper`.

        Raises:
            ImportError: distillmos is missing.
        """
        self._device, self._decoder, self._natural = device, decoder.to(device).eval(), load_distillmos(device)
        self._teacher = load_teacher(teacher, device)
        self._mel = frames(self._teacher.config.num_mel_bins, device)
        self._words = Tokenizer.from_file(str(teacher / TOKENIZER))
        known = self._words.get_vocab(with_added_tokens=True)
        self._prompt, self._end = [known[token] for token in _PROMPT], known[_END]
        # A process that is forked from one that uses a GPU may hang.
        self._pool = ProcessPoolExecutor(mp_context=get_context("spawn"))

    @torch.no_grad()
    def __call__(self, codes: Sequence[NDArray[np.int16]], texts: Sequence[str], asking: Sequence[bool]) -> Judgements:
        """Judge takes, as `Judge` says."""
        found = Judgements(*np.full((3, len(codes)), np.nan))
        places, tails = list[int](), list[NDArray[np.float32]]()
        for group in by_length([max(len(one), _LEAST) for one in codes], _FRAMES):
            wave = self.heard([codes[i] for i in group])
            ends = [len(codes[i]) * FRAME * HEARING_RATE // RATE for i in group]
            found.natural[group] = self._natural(F.pad(wave, (0, _HEARD - wave.shape[1]))).cpu().numpy()
            rows = [row[:end] for row, end in zip((wave * 32767).to(torch.int16), ends, strict=True)]
            states = self._teacher.model.encoder(self._mel(rows).to(self._teacher.dtype)).last_hidden_state
            found.heard[group] = self._likely(states, [texts[i] for i in group]).cpu().numpy()
            for row, (i, end) in enumerate(zip(group, ends, strict=True)):
                if asking[i]:
                    places.append(i)
                    tails.append(wave[row, max(0, end - _TAIL) : end].cpu().numpy())
        rises = self._pool.map(rise, tails, [HEARING_RATE] * len(tails), chunksize=16)
        found.rise[places] = [math.nan if one is None else one for one in rises]
        return found

    def heard(self, codes: Sequence[NDArray[np.int16]]) -> Tensor:
        """Decode takes of about one length: float32 [B, samples] at 16 kHz, silent after each one's end."""
        sizes = torch.tensor([len(one) for one in codes], device=self._device)
        padded = np.zeros((len(codes), max(map(len, codes)), codes[0].shape[1]), np.int16)
        for row, one in zip(padded, codes, strict=True):
            row[: len(one)] = one
        with autocast(self._device):
            wave = self._decoder(torch.from_numpy(padded).to(self._device).long().transpose(1, 2))[:, 0].float()
        inside = torch.arange(wave.shape[1], device=self._device)[None] < sizes[:, None] * FRAME
        return to_hearing_rate(begun(wave) * inside).clamp(-1, 1)

    def _likely(self, states: Tensor, texts: Sequence[str]) -> Tensor:
        """Give the log-probability [B] of each text and its end after Whisper's states of a take, in the spelling that
        is likelier."""
        ways = [spellings(text) for text in texts]
        tries = [self._likely_one(states, [way[n % len(way)] for way in ways]) for n in range(max(map(len, ways)))]
        return torch.stack(tries).amax(0)

    def _likely_one(self, states: Tensor, texts: Sequence[str]) -> Tensor:
        prompt, end = self._prompt, self._end
        written = [self._words.encode(f" {text}", add_special_tokens=False).ids for text in texts]
        size = len(prompt) + max(map(len, written))
        given, asked = torch.full((len(texts), size), end), torch.full((len(texts), size), _IGNORE)
        for row, (tokens, goal) in enumerate(zip(written, asked, strict=True)):
            given[row, : len(prompt) + len(tokens)] = torch.tensor([*prompt, *tokens])
            goal[len(prompt) - 1 : len(prompt) + len(tokens)] = torch.tensor([*tokens, end])
        out = self._teacher.model.decoder(
            input_ids=given.to(self._device), encoder_hidden_states=states, use_cache=False
        )
        logits = self._teacher.proj_out(out.last_hidden_state).float().transpose(1, 2)
        return -F.cross_entropy(logits, asked.to(self._device), ignore_index=_IGNORE, reduction="none").sum(1)
