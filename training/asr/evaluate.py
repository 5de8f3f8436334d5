"""Greedy decoding of labelled clips and word error rates, the model choosing the language itself as in live use."""

from collections.abc import Sequence

import jiwer
import torch
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel, past_end
from training.shards import RATE, Clip
from training.transcript import plain


def error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Word errors over the words of the references, in percent; without case and punctuation, numbers as they come."""
    found = jiwer.process_words([plain(text) for text in references], [plain(text) for text in hypotheses])
    errors = found.substitutions + found.insertions + found.deletions
    return round(100 * errors / max(sum(map(len, found.references)), 1), 2)


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
) -> dict[str, dict[str, float]]:
    """Error rates of every set: of the decoder ("wer") and of CTC alone ("ctc_wer")."""
    scores: dict[str, dict[str, float]] = {"wer": {}, "ctc_wer": {}}
    for name, clips in sets.items():
        texts = transcribe(model, mel, prompt, clips, device)
        references = [clip.text for clip in clips]
        for kind, found in zip(scores, zip(*texts, strict=True), strict=True):
            scores[kind][name] = error_rate(references, found)
    return scores
