"""A daemon as a process of its own."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.daemon.support import HTTP, eventually

UNHURRIED = "import engines.load; engines.load.USABLE, engines.load.LATE_SECONDS = 1e9, 0.0"
"""However slow or busy the machine is, it takes the tests' sessions."""
MAIN = "import sys; from daemon.config import load; from daemon.serve import serve; sys.exit(serve(load()))"


class Process:
    """A daemon in a process of its own."""

    def __init__(self, before: str, load: str = UNHURRIED, **settings: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEARSAY_") or k == "HEARSAY_MODELS"}
        environment |= {f"HEARSAY_{name.upper()}": value for name, value in settings.items()}
        # llama_cpp keeps /dev/null open till the end.
        null = "ignore:unclosed file <_io.TextIOWrapper name='/dev/null'"
        command = [sys.executable, "-X", "dev", "-W", "error", "-W", null, "-c", f"{before}\n{load}\n{MAIN}"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            # Debug mode also tells of slow callbacks; on a busy machine any can be.
            self.lines.extend(line.rstrip() for line in stream if "Executing <" not in line)

    def url(self) -> str:
        """Its address, once it is ready."""
        assert eventually(lambda: any("is ready on" in line for line in self.lines), 120), self.lines
        line = next(line for line in self.lines if "is ready on" in line)
        return line.split(" on ")[1].split(" with ")[0]

    def wait(self, seconds: float = 120) -> int:
        """Its exit status."""
        status = self.process.wait(seconds)
        self._reading.join()
        return status


@contextmanager
def process(before: str = "", load: str = UNHURRIED, **settings: str) -> Iterator[Process]:
    """A daemon that ends with the block at the latest; its process runs ``before`` and ``load`` first."""
    running = Process(before, load, **{"port": "0", "sessions": "4", "tts_model": "none", **settings})
    try:
        yield running
    finally:
        running.process.kill()
        running.wait()


def ask(url: str, path: str) -> int:
    """The status of a GET; 0 if nobody answers."""
    try:
        return HTTP.get(url + path).status_code
    except httpx.TransportError:
        return 0
