"""Labelled clips are decoded greedily and their word error rates counted. The model chooses the language itself, as in
live use. How far their states are from a teacher's is told too."""

from collections.abc import Sequence

import jiwer
import torch
import torch.nn.functional as F
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel, heard
from training.asr.teacher import WhisperEncoder, states, teachers_mel
from training.shards import RATE, Clip
from training.transcript import plain


def error_rate(references: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Give the word errors over the words of the references, in percent, without case and punctuation. Numbers count as
    they are written."""
    return round(100 * jiwer.wer([plain(text) for text in references], [plain(text) for text in hypotheses]), 2)


@torch.no_grad()
def transcribe(
    model: PocketASR, mel: LogMel, prompt: Prompt, clips: Sequence[Clip], device: torch.device
) -> list[tuple[str, str]]:
    """Give (decoder text, CTC text) of every clip, in order."""
    model.eval()
    out: list[tuple[str, str]] = [("", "")] * len(clips)
    suffix = torch.tensor(prompt.suffix, device=device)
    waves = [torch.from_numpy(clip.samples) for clip in clips]
    for group, _, frames, spectra in heard(waves, mel, model.shape.chunk_frames):
        prefix = torch.tensor([prompt.prefix()] * len(group), device=device)
        count = torch.full((len(group),), prefix.shape[1], device=device)
        limit = min(int(frames.max()) * HOP // RATE * 9 + 21, 500)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            ids, ctc, valid = model.transcribe(spectra, frames, prefix, count, suffix, prompt.end, limit)
        for r, i in enumerate(group):
            out[i] = prompt.text(ids[r].tolist()), prompt.text(collapse(ctc[r, : int(valid[r])], model.shape.vocab))
    return out


def collapse(path: Tensor, blank: int) -> list[int]:
    """Apply CTC's greedy rule: repeats count once, and blanks are dropped."""
    kept = path.unique_consecutive()
    return kept[kept != blank].tolist()


def score(
    model: PocketASR, mel: LogMel, prompt: Prompt, sets: dict[str, list[Clip]], device: torch.device
) -> dict[str, dict[str, float]]:
    """Give the error rates of every set: of the decoder ("wer") and of CTC alone ("ctc_wer")."""
    scores: dict[str, dict[str, float]] = {"wer": {}, "ctc_wer": {}}
    for name, clips in sets.items():
        texts = transcribe(model, mel, prompt, clips, device)
        references = [clip.text for clip in clips]
        for kind, found in zip(scores, zip(*texts, strict=True), strict=True):
            scores[kind][name] = error_rate(references, found)
    return scores


@torch.no_grad()
def distance(
    model: PocketASR, mel: LogMel, teacher: WhisperEncoder, sets: dict[str, list[Clip]], device: torch.device
) -> dict[str, dict[str, float]]:
    """Give the distance ("states") of what the head says (`add_taught`) to the teacher's states, for every set: of
    clips as they are, in windows of their own from their beginning on."""
    model.eval()
    found: dict[str, float] = {}
    without_floor, window = teachers_mel(teacher.bins, device), model.shape.window_frames
    for name, clips in sets.items():
        far = count = 0.0
        for _, samples, frames, spectra in heard([torch.from_numpy(clip.samples) for clip in clips], mel, window):
            _, late = states(teacher, without_floor(samples), frames, window)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                said = model.hear(spectra, frames)
                rows = F.smooth_l1_loss(model.taught(said.followed).float(), late.float(), reduction="none").mean(-1)
            valid = torch.arange(rows.shape[1], device=device)[None] < said.count[:, None]
            far, count = far + float((rows * valid).sum()), count + float(valid.sum())
        found[name] = round(far / max(count, 1.0), 4)
    return {"states": found}
