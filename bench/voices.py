"""Live voices on one daemon: whether each is there in time for its listener, and what all of them use.

This process is every listener; the daemon is another one. A listener plays from the first audio on, keeps a few seconds
waiting as players do, and takes no more before it has played some: so the daemon speaks at the pace of real time. A
piece that comes after all before it was played is an under-run.
"""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.probe import cpu_seconds, machine, resident_bytes
from bench.served import served
from bench.tts import TEXT
from clients.clock import PlaybackClock
from clients.events import ListenError
from clients.lag import percentile
from clients.speech import AsyncSpeech, Audio, SpeechOptions
from engines.threads import budget

WAITING_SECONDS = 3.0
"""Seconds of audio that a listener keeps unplayed."""
CHARACTERS_PER_SECOND = 40
"""Characters of text a second that are told at the start: more than any voice speaks."""


@dataclass(slots=True)
class _Load:
    """What all listeners together saw."""

    clocks: list[PlaybackClock] = field(default_factory=list[PlaybackClock])
    first: list[float] = field(default_factory=list[float])
    audio: list[float] = field(default_factory=list[float])
    lost: list[str] = field(default_factory=list[str])


def measure(directory: Path, *, count: int, seconds: float, threads: int | None = None) -> dict[str, object]:
    """Let ``count`` voices of the model in ``directory`` speak for ``seconds`` of real time each.

    Raises:
        RuntimeError: the daemon did not become ready.
    """
    flags = ["--tts-model", str(directory), "--speakers", str(count)]
    flags += ["--threads", str(threads)] if threads else []
    with served(flags) as daemon:
        before, own_before, began = cpu_seconds(daemon.process), time.process_time(), time.perf_counter()
        load = asyncio.run(_run(daemon.url, count, seconds))
        wall = time.perf_counter() - began
        after, resident = cpu_seconds(daemon.process), resident_bytes(daemon.process)
    return {
        "voices": count,
        "seconds_each": seconds,
        "audio_seconds": round(sum(load.audio), 1),
        "lost_voices": len(load.lost),
        "lost_because": sorted(set(load.lost))[:5],
        "first_audio_ms": _spread(load.first),
        "under_runs": sum(clock.under_runs for clock in load.clocks),
        "voices_with_under_runs": sum(clock.under_runs > 0 for clock in load.clocks),
        "silent_seconds": round(sum(clock.silent_seconds for clock in load.clocks), 3),
        "daemon_cores": round((after - before) / wall, 3) if before is not None and after is not None else None,
        "generator_cores": round((time.process_time() - own_before) / wall, 3),
        "daemon_resident_bytes": resident,
        "ready_seconds": round(daemon.ready_seconds, 2),
        "machine": machine(threads or budget()),
    }


async def _run(url: str, count: int, seconds: float) -> _Load:
    load = _Load()
    async with asyncio.TaskGroup() as tasks:
        for index in range(count):
            tasks.create_task(_listener(url, index, index / count, seconds, load))
    return load


async def _listener(url: str, index: int, delay: float, seconds: float, load: _Load) -> None:
    """One voice; ``delay`` keeps the first words of all from coming at one moment."""
    await asyncio.sleep(delay)
    clock, audio = PlaybackClock(), 0.0
    options = SpeechOptions(seed=index)
    try:
        async with AsyncSpeech(url, options, timeout=30) as speech:
            began = time.monotonic()
            await speech.speak(TEXT * (int(seconds * CHARACTERS_PER_SECOND) // len(TEXT) + 1))
            async for event in speech:
                now = time.monotonic()
                if now > began + seconds:
                    break
                if isinstance(event, Audio):
                    if not audio:
                        load.first.append(now - began)
                    piece = len(event.data) / options.bytes_per_second
                    audio += piece
                    clock.add(piece, now)
                    await asyncio.sleep(max(0.0, clock.buffered(now) - WAITING_SECONDS))
    except ListenError as error:
        load.lost.append(str(error))
    load.clocks.append(clock)
    load.audio.append(audio)


def _spread(values: list[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p95": None, "worst": None}
    shares = percentile(values, 0.5), percentile(values, 0.95), max(values)
    return {name: round(1000 * value, 1) for name, value in zip(("p50", "p95", "worst"), shares, strict=True)}
