"""Evaluation of a checkpoint folder in float32: what eval.json beside it says."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training.asr.checkpoint import load_weights, read_shape
from training.asr.evaluate import score
from training.asr.model import PocketASR
from training.asr.prompt import Prompt
from training.asr.spectrogram import LogMel
from training.shards import Clip, read_shards


def load_model(folder: Path, device: torch.device) -> tuple[PocketASR, Prompt]:
    """The model of a checkpoint folder, ready to decode."""
    model = PocketASR(read_shape(folder))
    model.load_state_dict(load_weights(folder))
    return model.to(device).eval(), Prompt(Tokenizer.from_file(str(folder / "tokenizer.json")))


def report(folder: Path, test: Sequence[Path], device: str, limit: int, out: Path | None) -> dict[str, Any]:
    """Print (and write to `out`) WER in percent per corpus of the test shards, greedy."""
    target = torch.device(device)
    model, prompt = load_model(folder, target)
    sets: dict[str, list[Clip]] = {}
    for clip in read_shards(test):
        sets.setdefault(clip.corpus, []).append(clip)
    scores, _ = score(model, LogMel().to(target), prompt, {k: v[:limit] for k, v in sets.items()}, target)
    found: dict[str, Any] = {
        "decoding": "greedy, language chosen by the model, float32",
        "wer_percent": {k: round(100 * s.rate, 2) for k, s in scores.items()},
        "ctc_wer_percent": {k: round(100 * s.ctc_rate, 2) for k, s in scores.items()},
        "words": {k: s.words for k, s in scores.items()},
    }
    print(json.dumps(found, indent=1))
    if out is not None:
        out.write_text(json.dumps(found, indent=1) + "\n")
    return found
