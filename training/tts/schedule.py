"""All stages in one go within a number of seconds: data beside the first training, then the chain of codec, talker and
fine-tuning, then the judge. What the stages before a failed one left in `out` stays.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from training.tts.chain import Chain, run_chain
from training.tts.speech import shards
from training.tts.stages import Stages

_JUDGE = 40.0  # seconds
_FIRST_SHARDS = 24  # of synthetic speech (about five hours) that the codec waits for
_LONGEST_WAIT = 120.0


@dataclass(frozen=True)
class Schedule:
    """What all stages are given. tokenizer: folder of a finished one (None: train it). start: codec to begin from."""

    config: Path
    tars: tuple[Path, ...]
    text: Path
    root: Path
    out: Path
    seconds: float
    voice: str
    tokenizer: Path | None = None
    start: Path | None = None
    hours: float = 60.0
    workers: int = 12
    device: str = "cuda"


def run_all(schedule: Schedule) -> None:
    """From tars and text to codec, talker and judge under `out`."""
    s, out = schedule, schedule.out
    until = time.time() + s.seconds
    stages = Stages(s.config)
    tokenizer = s.tokenizer or out / "tokenizer"
    given = ["--text", s.text, "--root", s.root, "--out", out / "synthetic", "--hours", s.hours]
    synth = stages.start("synth", [*given, "--workers", s.workers, "--seconds", 0.4 * s.seconds])
    try:
        if s.tokenizer is None:
            stages.run("tokenizer", ["--text", s.text, "--out", tokenizer])
        stages.run("voice", [*s.tars, "--root", s.root, "--out", out / "voice", "--workers", s.workers])
        waited = time.monotonic()
        while len(shards([out / "synthetic"])) < _FIRST_SHARDS and time.monotonic() - waited < _LONGEST_WAIT:
            if synth.poll() is not None:
                break
            time.sleep(0.5)
        speech = (out / "voice", out / "synthetic")
        run_chain(
            Chain(
                s.config, "all", speech, tokenizer / "tokenizer.json", out, until - _JUDGE, s.voice, s.start,
                device=s.device,
            )
        )  # fmt: skip
        left = max(until - time.time(), 20)
        judge = ["--speech", *speech, "--out", out / "judge.safetensors", "--seconds", left, "--device", s.device]
        stages.run("judge", judge)
    finally:
        stages.stop(synth)
