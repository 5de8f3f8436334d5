"""A daemon of its own process for a measurement: its CPU time and memory are nobody else's."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from urllib.error import HTTPError
from urllib.request import urlopen

READY_SECONDS = 120
"""Seconds in which a daemon must be ready: large models load for a minute."""
_END_SECONDS = 40
"""Seconds in which it must end: its drain, and some more."""


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon that takes work: its address, process number, and seconds until it did."""

    url: str
    process: int
    ready_seconds: float


@contextmanager
def served(flags: Sequence[str], checkout: Path | None = None, tokens: float | None = None) -> Generator[Served]:
    """``hearsay serve`` with ``flags`` on a free loopback port, for as long as the block lasts.

    Args:
        checkout: another one, with a ``.venv`` of its own, whose daemon it is to be.
        tokens: how many a second of audio its hearing model says, whatever it hears (bench/forced.py).

    It takes the port itself and tells which: one chosen here could be another's by the time it listens.

    Raises:
        RuntimeError: it did not become ready.
    """
    program = ["commands.main"] if tokens is None else ["bench.forced", str(tokens)]
    command = [python(checkout), "-m", *program, "serve", "--port", "0", *flags]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=checkout,
        env={**os.environ, "HEARSAY_API_KEY": ""},
    )
    assert process.stderr is not None
    urls = SimpleQueue[str | None]()
    passing = threading.Thread(target=_pass_on, args=(process.stderr, urls))
    passing.start()
    try:
        try:
            url = urls.get(timeout=READY_SECONDS)
        except Empty:
            url = None
        if url is None:
            raise RuntimeError("the daemon did not become ready")
        seconds = time.perf_counter() - began
        while _warms(url) and time.perf_counter() - began < READY_SECONDS:
            time.sleep(0.2)
        yield Served(url, process.pid, seconds)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        passing.join()
        process.stderr.close()


def _warms(url: str) -> bool:
    """Whether a model of the daemon is being warmed: it takes work already, but a large one slower than later."""
    try:
        with urlopen(f"{url}/readyz", timeout=READY_SECONDS) as answer:
            return "warming" in json.load(answer)
    except HTTPError as error:
        return error.code == 503


def python(checkout: Path | None) -> str:
    """The Python of a checkout's .venv, or without a checkout the one that runs this."""
    return sys.executable if checkout is None else str(checkout.resolve() / ".venv" / "bin" / "python")


def _pass_on(lines: Iterable[str], urls: SimpleQueue[str | None]) -> None:
    """What the daemon says goes to our own stderr; where it is ready into ``urls``, and None where it says no more."""
    for line in lines:
        sys.stderr.write(line)
        if " is ready on " in line:
            urls.put(line.split(" is ready on ")[1].split()[0])
    urls.put(None)
