"""What is to hold while somebody, a client or the chat endpoint, does its worst: ``/healthz``, memory, and a prompt no.

The daemon and the chat endpoint are processes of their own, so that what is measured is the daemon's.
"""

import gzip
import itertools
import multiprocessing
import os
import statistics
import threading
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import httpx
import psutil
import pytest

from tests.daemon.chat_server import ChatServer, chunk
from tests.daemon.process import process
from tests.daemon.realtime import ASKED, session

PROMPT_SECONDS = float(os.environ.get("HEARSAY_SOAK_PROMPT_SECONDS", "5"))
HEALTH_SECONDS = float(os.environ.get("HEARSAY_SOAK_HEALTH_SECONDS", "0.05"))
"""For 99 of 100 looks at ``/healthz``; where they took longer before, the machine does something else."""
MORE_BYTES = 64 << 20
SILENCE_SECONDS = 120.0


def _call(index: int) -> bytes:
    return chunk({"tool_calls": [{"index": index, "id": f"call_{index}", "function": {"name": "tide"}}]})


def _raw(attack: str) -> tuple[Iterable[bytes] | bytes, str, float]:
    """What the endpoint sends: its pieces, how they say that they are compressed, and the seconds between them."""
    match attack:
        case "a bomb":
            return gzip.compress(b"\n" * (128 << 20), 6), "gzip", 0.0
        case "calls":
            return map(_call, itertools.count()), "", 0.0
        case "line ends":
            return itertools.repeat(b"\n" * (1 << 16)), "", 0.0
        case "comments at once":
            return itertools.repeat(b": alive\n\n" * 1000), "", 0.0
        case "comments":
            return itertools.repeat(b": alive\n\n"), "", 0.1
        case "empty deltas":
            return itertools.repeat(chunk({"content": ""})), "", 0.1
        case _:
            return itertools.repeat(chunk({"content": "Hm. " * 50})), "", 0.0


def _endpoint(attack: str, tell: Connection) -> None:
    with ChatServer() as chat:
        chat.script.raw, chat.script.coding, chat.script.pause = _raw(attack)
        tell.send(chat.url)
        tell.recv()


class Watch:
    """``/healthz`` and the memory of a daemon, all the while."""

    def __init__(self, url: str, pid: int) -> None:
        self.seconds: list[float] = []
        self._url, self._process, self._over = url, psutil.Process(pid), threading.Event()
        self.before = self.most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        with httpx.Client(trust_env=False, timeout=60) as client:
            client.get(f"{self._url}/healthz")
            while not self._over.wait(0.01):
                began = time.perf_counter()
                assert client.get(f"{self._url}/healthz").status_code == 200
                self.seconds.append(time.perf_counter() - began)
                self.most = max(self.most, self._process.memory_info().rss)

    @property
    def slow(self) -> float:
        """The 99th percentile."""
        return statistics.quantiles(self.seconds, n=100)[98]


@pytest.mark.parametrize(
    ("attack", "code"),
    [
        ("references", "input_limit"),
        ("a bomb", "llm_garbled"),
        ("calls", "llm_endless"),
        ("line ends", "llm_garbled"),
        ("comments at once", "llm_garbled"),
        ("text", "llm_endless"),
        ("comments", "llm_timeout"),
        ("empty deltas", "llm_timeout"),
    ],
)
def test_an_attack_has_its_answer_and_nobody_else_notices(attack: str, code: str) -> None:
    """Within seconds; or within what is promised of silence."""
    mine, theirs = multiprocessing.Pipe()
    endpoint = multiprocessing.get_context("spawn").Process(target=_endpoint, args=(attack, theirs))
    endpoint.start()
    try:
        with process(llm_url=mine.recv(), log_level="info") as running:
            url = running.url()
            with session(url, options={"max_size": None}) as live:
                live.update(output_modalities=["text"])
                text = [{"type": "input_text", "text": "x" * 900_000}]
                live.tell("conversation.item.create", item={**ASKED, "id": "a", "content": text})
                live.until("conversation.item.done")
                with Watch(url, running.process.pid) as alone:
                    time.sleep(4.0)
                asked: dict[str, Any] = {"input": [{"type": "item_reference", "id": "a"}] * 25_000}
                with Watch(url, running.process.pid) as watch:
                    began = time.perf_counter()
                    live.tell("response.create", **({"response": asked} if attack == "references" else {}))
                    event = live.until("error", "response.done", timeout=SILENCE_SECONDS + 60)
                    took = time.perf_counter() - began
                    time.sleep(2.0)
                error = event.get("error") or event["response"]["status_details"]["error"]
            running.process.terminate()
            running.wait()
        silent = code == "llm_timeout"
        more = watch.most - watch.before
        print(
            f"\n{attack}: {error['code']} in {took:.2f} s; /healthz p99 {1000 * watch.slow:.0f} ms of "
            f"{len(watch.seconds)} (before: {1000 * alone.slow:.0f}), memory + {more / (1 << 20):.1f} MiB"
        )
        assert error["code"] == code
        assert took < PROMPT_SECONDS + silent * SILENCE_SECONDS and took > silent * SILENCE_SECONDS
        assert more <= MORE_BYTES
        assert watch.slow <= max(HEALTH_SECONDS, 2 * alone.slow)
        assert not [line for line in running.lines if "Traceback" in line]
    finally:
        mine.send(None)
        endpoint.join()
