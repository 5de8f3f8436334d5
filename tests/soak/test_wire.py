"""The daemon for a long time: a thousand clients that vanish, and an hour of speech over one connection."""

import json
import os
import threading
import time
from functools import partial
from typing import Any

import psutil

from daemon.loading import Loaded, Models
from streaming.model import AsrModel
from tests.clips import RATE, Clip
from tests.daemon.support import Client, Counts, Speech, running
from tests.daemon.test_disconnects import abrupt_disconnects
from tests.streaming.test_listener import continuous

MINUTES = int(os.environ.get("HEARSAY_SOAK_MINUTES", "60"))
DISCONNECTS = 1000
AHEAD_SECONDS = 10.0
"""How far the sender runs ahead of hearing: the speed is the model's own."""
GROWTH = 16_000_000
"""Bytes that resident memory may grow after the first tenth: allocator noise."""
LEFT_BEHIND = 40_000
"""Bytes a vanished client may cost on average: the arenas of dozens of threads breathe, but one listener is more."""


def test_a_thousand_abrupt_disconnects(asr_model: AsrModel, clips: list[Clip]) -> None:
    """No thread, descriptor, listener, sequence or place is left; memory stays what a thousand before made it."""
    speech, count = Speech.among(clips), partial(Counts.of, asr_model)
    process = psutil.Process()
    with running(Models(Loaded.of(asr_model))) as background:
        abrupt_disconnects(background, speech, count, DISCONNECTS)  # every thread's arena fills once
        before = process.memory_info().rss
        began = time.perf_counter()
        abrupt_disconnects(background, speech, count, DISCONNECTS)
        after = process.memory_info().rss
    seconds = time.perf_counter() - began
    print(f"\n{DISCONNECTS} disconnects in {seconds:.0f} s, resident {before / 1e6:.1f} MB → {after / 1e6:.1f} MB")
    assert after - before < DISCONNECTS * LEFT_BEHIND


def test_an_hour_over_the_wire(asr_model: AsrModel, clips: list[Clip]) -> None:
    """At the speed that the model sustains, memory stays flat and every second is heard."""
    pcm = (continuous(clips, 300) * 32767).astype("<i2").tobytes()
    process = psutil.Process()
    piece = 2 * RATE
    with running(Models(Loaded.of(asr_model)), idle_seconds=600, max_session_seconds=604800) as background:
        registry = background.hub.metrics.registry
        messages: list[dict[str, Any]] = []
        memory: list[int] = []
        began = time.perf_counter()
        with Client(background.url).open(interim_results=True, endpointing="false") as socket:
            reading = threading.Thread(target=lambda: messages.extend(trimmed(json.loads(m)) for m in socket))
            reading.start()
            sent = 0
            while sent < MINUTES * 60 * 2 * RATE:
                at = sent % (len(pcm) - piece)
                socket.send(pcm[at : at + piece])
                sent += piece
                while (registry.get_sample_value("hearsay_unheard_seconds") or 0.0) > AHEAD_SECONDS:
                    time.sleep(0.01)
                if sent % (60 * piece) == 0:
                    memory.append(process.memory_info().rss)
            socket.send('{"type": "CloseStream"}')
            reading.join()
        seconds = time.perf_counter() - began
    first, last = memory[max(MINUTES // 10 - 1, 0)], memory[-1]
    finals = [m for m in messages if m.get("is_final")]
    print(
        f"\n{MINUTES} minutes over the wire in {seconds:.0f} s ({MINUTES * 60 / seconds:.1f}x real time), "
        f"{len(finals)} finals, resident {first / 1e6:.1f} MB → {last / 1e6:.1f} MB"
    )
    assert messages[-1]["duration"] == MINUTES * 60
    assert last - first < GROWTH
    gaps = [b["start"] - a["start"] - a["duration"] for a, b in zip(finals, finals[1:], strict=False)]
    assert max(gaps) < 1.0, "segments follow each other"


def trimmed(message: dict[str, Any]) -> dict[str, Any]:
    """What the checks need: an hour of interims would itself grow."""
    return {key: message.get(key) for key in ("type", "is_final", "start", "duration")}
