"""All stages in one go within a number of seconds: data beside the first training, then each stage its share of the
time.

Every stage is a process of its own, so that a device's memory is free for the next one. A stage that fails ends the
whole; what the stages before it left in `out` stays.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training.tts.speech import shards

CODEC_SHARE, TALKER_SHARE, FINE_SHARE = (
    0.48,
    0.43,
    0.09,
)  # of the seconds that are left once there is speech to train on
_OVERHEAD = 60.0  # seconds for encoding, loading and capturing graphs
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


class Stages:
    """Runs stages as processes, each with its log line."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self._began = schedule, time.monotonic()

    @property
    def left(self) -> float:
        return self.schedule.seconds - (time.monotonic() - self._began)

    def start(self, stage: str, arguments: Sequence[object]) -> subprocess.Popen[bytes]:
        print(f"== {self.schedule.seconds - self.left:.0f} s: {stage}", flush=True)
        line = [sys.executable, "-m", "training.tts", "--config", str(self.schedule.config), stage]
        return subprocess.Popen([*line, *map(str, arguments)], start_new_session=True)

    def run(self, stage: str, arguments: Sequence[object]) -> None:
        self.finish(stage, self.start(stage, arguments))

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """End a stage with the worker processes it has started."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def finish(self, stage: str, process: subprocess.Popen[bytes]) -> None:
        try:
            code = process.wait()
        finally:
            self.stop(process)
        if code:
            raise RuntimeError(f"{stage}: ended with {code}; its output stands above")


def shares(left: float) -> tuple[float, float, float]:
    """Seconds of codec, talker and fine-tuning out of what is left. ValueError where that is too little to train
    anything.
    """
    useful = left - _OVERHEAD
    if useful < 30:
        raise ValueError(f"seconds: {left:.0f} left once speech is there; at least {_OVERHEAD + 30:.0f} are needed")
    return CODEC_SHARE * useful, TALKER_SHARE * useful, FINE_SHARE * useful


def run_all(schedule: Schedule) -> None:
    """From tars and text to codec, talker and judge under `out`."""
    s, out = schedule, schedule.out
    stages = Stages(s)
    tokenizer = s.tokenizer or out / "tokenizer"
    given = ["--text", s.text, "--root", s.root, "--out", out / "synthetic", "--hours", s.hours]
    synth = stages.start("synth", [*given, "--workers", s.workers, "--seconds", 0.6 * s.seconds])
    try:
        if s.tokenizer is None:
            stages.run("tokenizer", ["--text", s.text, "--out", tokenizer])
        stages.run("voice", [*s.tars, "--root", s.root, "--out", out / "voice", "--workers", s.workers])
        waited = time.monotonic()
        while len(shards([out / "synthetic"])) < _FIRST_SHARDS and time.monotonic() - waited < _LONGEST_WAIT:
            if synth.poll() is not None:
                break
            time.sleep(0.5)
        codec, talker, fine = shares(stages.left)
        speech = ["--speech", out / "voice", out / "synthetic"]
        begin = ["--start", s.start] if s.start else []
        where = ["--device", s.device]
        stages.run("codec", [*speech, "--out", out / "codec", "--seconds", codec, *begin, *where])
        made = out / "codec/codec.safetensors"
        stages.run("encode", ["--codec", made, *speech, "--out", out / "codes.npz", *where])
        common = ["--codes", out / "codes.npz", "--tokenizer", tokenizer / "tokenizer.json", *where]
        stages.run("talker", [*common, "--out", out / "talker", "--seconds", talker])
        base = ["--start", out / "talker/model.safetensors", "--voice", s.voice, "--evaluate-every", 150]
        stages.run("talker", [*common, "--out", out / "fine", "--seconds", fine, *base])
        stages.run("judge", [*speech, "--out", out / "judge.safetensors", "--seconds", max(stages.left, 20), *where])
    finally:
        stages.stop(synth)
