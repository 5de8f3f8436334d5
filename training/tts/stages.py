"""Stages of training as processes: each on its own device, so that memory is free for the next one and several run at
once.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_WORTH_A_RETRY = 0.3  # of a stage's time that must be left


class StageFailed(RuntimeError):
    """A stage ended with an error and left nothing to go on with; its output says why."""


class Stages:
    """Starts stages of one configuration and says so. A gpu is an index as CUDA counts them; None: what the caller
    sees.
    """

    def __init__(self, config: Path, name: str = "") -> None:
        self._line = [sys.executable, "-m", "training.tts", "--config", str(config)]
        self._name, self._began = name, time.monotonic()

    def say(self, text: str) -> None:
        print(f"== {self._name} {time.monotonic() - self._began:.0f} s: {text}", flush=True)

    def start(self, stage: str, arguments: Sequence[object], gpu: int | None = None) -> subprocess.Popen[bytes]:
        self.say(stage if gpu is None else f"{stage} on GPU {gpu}")
        own = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": str(gpu)}
        return subprocess.Popen(
            [*self._line, stage, *map(str, arguments)], start_new_session=True, env=os.environ | own
        )

    def run(self, stage: str, arguments: Sequence[object], gpu: int | None = None) -> None:
        """One stage to its end; StageFailed where it fails."""
        self.finish(stage, self.start(stage, arguments, gpu))

    def attempt(
        self, stage: str, arguments: Sequence[object], gpu: int | None, until: float, again: Sequence[object]
    ) -> bool:
        """A stage that ends at `until` (seconds since the epoch). Where it fails early it is run once more with the
        arguments `again` added. True where an attempt ended well.
        """
        begun = time.time()
        for extra in ((), again):
            try:
                self.run(stage, [*arguments, *extra], gpu)
            except StageFailed as error:
                self.say(f"WARNING: {error}")
            else:
                return True
            if time.time() > until - _WORTH_A_RETRY * (until - begun):
                break
        return False

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
            raise StageFailed(f"{stage}: ended with {code}; its output stands above")
