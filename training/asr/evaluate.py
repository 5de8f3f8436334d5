"""Greedy decoding of labelled clips and word error rates, the model choosing the language itself as in live use."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import jiwer
import torch
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel, past_end
from training.shards import RATE, Clip

_OTHER = re.compile(r"[^a-z0-9' ]+")


def words_of(text: str) -> list[str]:
    """Lower case, no punctuation, numbers as they come."""
    return _OTHER.sub(" ", text.lower().replace("\u2019", "'")).split()


def distance(reference: Sequence[str], hypothesis: Sequence[str]) -> int:
    """Fewest substitutions, insertions and deletions of words from one to the other."""
    found = jiwer.process_words([" ".join(reference)], [" ".join(hypothesis)])
    return found.substitutions + found.insertions + found.deletions


@dataclass(frozen=True)
class Score:
    """Errors of one set."""

    errors: int
    words: int
    ctc_errors: int

    @property
    def rate(self) -> float:
        return self.errors / max(self.words, 1)

    @property
    def ctc_rate(self) -> float:
        return self.ctc_errors / max(self.words, 1)


@torch.no_grad()
def transcribe(
    model: PocketASR,
    mel: LogMel,
    prompt: Prompt,
    clips: Sequence[Clip],
    device: torch.device,
    *,
    batch_seconds: int = 1500,
) -> list[tuple[str, str]]:
    """(decoder text, CTC text) of every clip, in order."""
    model.eval()
    order = sorted(range(len(clips)), key=lambda i: len(clips[i].samples))
    out: list[tuple[str, str]] = [("", "")] * len(clips)
    suffix = torch.tensor(prompt.suffix, device=device)
    at = 0
    while at < len(order):
        size = max(1, min(256, int(batch_seconds / (len(clips[order[at]].samples) / RATE + 1))))
        group = order[at : at + size]
        at += size
        # Clips under half a second are padded and the padding counts, as in the official processor.
        counted = [max(len(clips[i].samples), RATE // 2) for i in group]
        chunk = model.shape.chunk_frames * HOP
        width = -(-max(counted) // chunk) * chunk
        samples = torch.zeros(len(group), width, device=device)
        for r, i in enumerate(group):
            samples[r, : len(clips[i].samples)] = torch.from_numpy(clips[i].samples.astype("float32") / 32768)
        frames = torch.tensor([n // HOP for n in counted], device=device)
        prefix = torch.tensor([prompt.prefix()] * len(group), device=device)
        count = torch.full((len(group),), prefix.shape[1], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            ids, ctc, valid = model.transcribe(
                past_end(mel(samples), frames),
                frames,
                prefix,
                count,
                suffix,
                prompt.end,
                min(max(counted) // RATE * 9 + 21, 500),
            )
        for r, i in enumerate(group):
            out[i] = prompt.text(ids[r].tolist()), prompt.text(collapse(ctc[r, : int(valid[r])], model.shape.vocab))
    return out


def collapse(path: Tensor, blank: int) -> list[int]:
    """CTC's greedy rule: repeats once, blanks away."""
    ids = path.tolist()
    return [a for a, b in zip(ids, [-1, *ids[:-1]], strict=True) if a != b and a != blank]


def score(
    model: PocketASR, mel: LogMel, prompt: Prompt, sets: dict[str, list[Clip]], device: torch.device
) -> tuple[dict[str, Score], dict[str, list[tuple[str, str]]]]:
    """Scores per set, and (reference, hypothesis) pairs to look at."""
    scores: dict[str, Score] = {}
    pairs: dict[str, list[tuple[str, str]]] = {}
    for name, clips in sets.items():
        texts = transcribe(model, mel, prompt, clips, device)
        errors = ctc = total = 0
        for clip, (text, ctc_text) in zip(clips, texts, strict=True):
            reference = words_of(clip.text)
            errors += distance(reference, words_of(text))
            ctc += distance(reference, words_of(ctc_text))
            total += len(reference)
        scores[name] = Score(errors, total, ctc)
        pairs[name] = [(c.text, t) for c, (t, _) in zip(clips, texts, strict=True)]
    return scores, pairs
