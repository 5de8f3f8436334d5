"""What a training run is given besides its model's configuration, and how its rates change in the course of it."""

import math
from dataclasses import dataclass
from pathlib import Path

from training.asr.config import Config


@dataclass(frozen=True)
class Run:
    """What a run is given besides the configuration of the model."""

    shards: tuple[Path, ...]
    test: tuple[Path, ...]
    text: Path
    tokenizer: Path
    out: Path
    seconds: float
    until: float = 0.0  # or: end at this time (seconds since the epoch), whatever loading took
    synthetic: Path | None = None
    labels: Path | None = None  # texts of clips, by file, instead of those of their index (labels.py)
    start: Path | None = None  # checkpoint folder to begin from
    resume: Path | None = None  # state.pt to go on from
    rate: float = 1.0  # of the configured rates
    evaluate_every: float = 240.0
    align_at: tuple[float, ...] = (0.3, 0.6)
    processes: int = 2
    device: str = "cuda"
    graphs: bool = True
    compile: bool = True
    quick: int = 120  # clips a set while training


def schedule(progress: float, step: int, config: Config) -> float:
    """Warm-up by steps, then constant, then a cosine on the wall clock: 0..1."""
    o = config.optimisation
    late = max(0.0, (progress - o.constant_until) / (1 - o.constant_until))
    cosine = o.final_rate + (1 - o.final_rate) * 0.5 * (1 + math.cos(math.pi * min(late, 1.0)))
    return min(1.0, (step + 1) / o.warmup_steps) * cosine
