"""A daemon of its own process for a measurement: its CPU time and memory are nobody else's."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

READY_SECONDS = 120
_END_SECONDS = 40


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon that takes work: its address, process number, and seconds until it did."""

    url: str
    process: int
    ready_seconds: float


@contextmanager
def served(flags: Sequence[str]) -> Generator[Served]:
    """``hearsay serve`` with ``flags`` on a free loopback port, for as long as the block lasts.

    Raises:
        RuntimeError: it did not become ready.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "commands.main", "serve", "--port", str(port), *flags]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "HEARSAY_API_KEY": ""})
    try:
        url = f"http://127.0.0.1:{port}"
        while not _is_ready(url):
            if process.poll() is not None or time.perf_counter() - began > READY_SECONDS:
                raise RuntimeError(f"the daemon did not become ready (exit code {process.poll()})")
            time.sleep(0.02)
        yield Served(url, process.pid, time.perf_counter() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False
