"""The daemon for a long time: a thousand clients vanish at each door; an hour of speech over one connection."""

import contextlib
import json
import os
import threading
import time
from typing import Any

import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from codec.model import TtsModel
from daemon.loading import Loaded, Models
from streaming.model import AsrModel
from tests.clips import RATE, Clip
from tests.daemon.disconnects import DOORS, abrupt_disconnects, whole
from tests.daemon.support import Client, Speech, running
from tests.soak.memory import Memory
from tests.streaming.listening import continuous

MINUTES = int(os.environ.get("HEARSAY_SOAK_MINUTES", "60"))
DISCONNECTS = int(os.environ.get("HEARSAY_SOAK_DISCONNECTS", "1000"))
AHEAD_SECONDS = 10.0
"""How far the sender runs ahead of hearing: the speed is the model's own."""
GROWTH = 16_000_000
"""Bytes that resident memory may grow after the first tenth: allocator noise."""
LEFT_BEHIND = 40_000
"""Bytes a vanished client may cost on average: the arenas of dozens of threads breathe, but one listener is more."""


@pytest.mark.parametrize("name", DOORS)
def test_a_thousand_abrupt_disconnects(name: str, asr_model: AsrModel, tts_model: TtsModel, clips: list[Clip]) -> None:
    """No thread, task, descriptor, session, sequence or place is left; memory stays what others before made it."""
    speech, models, process = Speech.among(clips), Models(Loaded.of(asr_model), Loaded.of(tts_model)), psutil.Process()
    with whole(models) as (background, chat):
        abrupt_disconnects(background, models, DOORS[name], speech, DISCONNECTS // 4)  # every thread's arena fills once
        broken_off = chat.seen.broken_off
        chat.seen.requests.clear()
        before = process.memory_info().rss
        began = time.perf_counter()
        abrupt_disconnects(background, models, DOORS[name], speech, DISCONNECTS)
        after = process.memory_info().rss
    seconds = time.perf_counter() - began
    print(
        f"\n{name}: {DISCONNECTS} disconnects in {seconds:.0f} s ({chat.seen.broken_off - broken_off} answers broken "
        f"off), resident {before / 1e6:.1f} MB → {after / 1e6:.1f} MB"
    )
    assert after - before < DISCONNECTS * LEFT_BEHIND


def test_an_hour_over_the_wire(asr_model: AsrModel, clips: list[Clip]) -> None:
    """At the speed that the model sustains, memory stays flat and every second is heard."""
    pcm = (continuous(clips, 300) * 32767).astype("<i2").tobytes()
    piece = 2 * RATE
    with running(Models(Loaded.of(asr_model)), idle_seconds=600, max_session_seconds=604800) as background:
        registry = background.hub.metrics.registry
        messages: list[dict[str, Any]] = []
        memory = Memory()
        began = time.perf_counter()
        with Client(background.url).open(interim_results=True, endpointing="false") as socket:
            reading = threading.Thread(target=read, args=(socket, messages))
            reading.start()
            sent = 0
            while sent < MINUTES * 60 * 2 * RATE:
                at = sent % (len(pcm) - piece)
                socket.send(pcm[at : at + piece])
                sent += piece
                while (registry.get_sample_value("hearsay_unheard_seconds") or 0.0) > AHEAD_SECONDS:
                    time.sleep(0.01)
                if sent % (60 * piece) == 0:
                    memory.sample()
            socket.send('{"type": "CloseStream"}')
            reading.join()
            assert socket.close_code == 1000, socket.close_reason
        seconds = time.perf_counter() - began
    finals = [m for m in messages if m.get("is_final")]
    print(
        f"\n{MINUTES} minutes over the wire in {seconds:.0f} s ({MINUTES * 60 / seconds:.1f}x real time), "
        f"{len(finals)} finals; {memory}"
    )
    assert messages[-1]["duration"] == MINUTES * 60
    assert memory.growth(0) < GROWTH and memory.growth(1) < GROWTH
    gaps = [b["start"] - a["start"] - a["duration"] for a, b in zip(finals, finals[1:], strict=False)]
    assert max(gaps) < 1.0, "segments follow each other"


def read(socket: ClientConnection, messages: list[dict[str, Any]]) -> None:
    """Take messages until the connection ends, however it ends: the other thread looks at its close code."""
    with contextlib.suppress(ConnectionClosed):
        for message in socket:
            messages.append(trimmed(json.loads(message)))


def trimmed(message: dict[str, Any]) -> dict[str, Any]:
    """What the checks need: an hour of interims would itself grow."""
    return {key: message.get(key) for key in ("type", "is_final", "start", "duration")}
