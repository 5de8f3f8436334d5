"""Daemons of this checkout as processes of their own, and speech as clients of others send it.

Nothing here imports hearsay: these tests run in an environment that has only the clients.
"""

import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

import httpx

ROOT: Final = Path(__file__).resolve().parents[2]
RATE: Final = 16_000
KEY: Final = "key-of-the-clients-outside"
NODE: Final = Path(os.environ.get("HEARSAY_OUTSIDE_NODE", ROOT / ".envs/outside/node"))
CLIP: Final = ROOT / "tests/data/clips/2f85d415637c.opus"


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that is ready. ``key`` opens it."""

    url: str
    key: str

    @property
    def socket_url(self) -> str:
        """The same with the scheme of WebSockets."""
        return self.url.replace("http", "ws", 1)

    @property
    def host(self) -> str:
        """Address and port."""
        return self.url.partition("://")[2]


@dataclass(frozen=True, slots=True)
class Speech:
    """A recording of one sentence, and what the daemon hears in it as a file."""

    pcm: bytes
    """linear16, mono, 16 kHz."""
    path: Path
    """FLAC of the same samples."""
    text: str

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.pcm) / (2 * RATE)

    def pieces(self, milliseconds: int = 20) -> list[bytes]:
        """The samples, cut as a microphone cuts them."""
        size = 2 * RATE * milliseconds // 1000
        return [self.pcm[start : start + size] for start in range(0, len(self.pcm), size)]


@contextmanager
def running(*flags: str, key: str = KEY) -> Iterator[Daemon]:
    """``hearsay serve`` on a free port, with flags of one's own."""
    command = [os.environ.get("HEARSAY", str(ROOT / ".venv/bin/hearsay")), "serve", "--port", "0", *flags]
    environment = {**os.environ, "HEARSAY_API_KEY": key}
    # A file, not a pipe: nobody reads on once the address is known.
    with tempfile.NamedTemporaryFile() as log, subprocess.Popen(command, stderr=log, env=environment) as process:
        try:
            while not (found := re.search(rb"is ready on (\S+)", Path(log.name).read_bytes())):
                assert process.poll() is None, Path(log.name).read_text()
                time.sleep(0.1)
            yield Daemon(found[1].decode(), key)
        finally:
            process.kill()
            assert b"Traceback" not in Path(log.name).read_bytes(), Path(log.name).read_text()


def heard(daemon: Daemon, path: Path) -> str:
    """What the daemon hears in a file, asked in the plainest way."""
    answer = httpx.post(
        f"{daemon.url}/v1/audio/transcriptions",
        files={"file": (path.name, path.read_bytes())},
        headers={"Authorization": f"Bearer {daemon.key}"},
        timeout=120,
        trust_env=False,
    )
    answer.raise_for_status()
    text = answer.json()["text"]
    assert text
    return text


def heard_as(one: str, other: str) -> float:
    """How many of the words of two texts are the same, in the same order, 0…1."""
    a, b = words(one), words(other)
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(len(a), len(b), 1)


def took(client: str, what: str, seconds: float) -> None:
    """Print a latency, for whoever runs these tests."""
    print(f"{client}: {what} {seconds:.2f} s")


def words(text: str) -> list[str]:
    """Its words in lower case, for texts that other people's code joins and trims in ways of its own."""
    return re.findall(r"[a-z0-9']+", text.lower())
