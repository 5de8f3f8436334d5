"""Live sessions at real-time pace on one daemon: how late it is, what it loses, what it uses.

This process is the load generator; the daemon is another one, started here or found at a given address. So its CPU time
is its own, and the generator's is reported beside it. The recordings are joined with pauses and spoken over and over;
each session begins at its own moment, so that ticks do not fall together.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from bench.clips import pcm16
from bench.probe import cpu_seconds, machine, resident_bytes
from bench.served import served
from bench.wer import normalize
from clients.events import ListenError, Results, Word
from clients.lag import LagMeter, percentile
from clients.options import StreamOptions
from clients.stream import AsyncStream
from engines.threads import budget

PIECE_SECONDS = 0.05
PAUSE_SECONDS = 1.2
ENDPOINTING_MS = 600
RATE = 16000
TIMED_CLIPS = 60
SAME_WORD_SECONDS = 0.4
"""A heard word is a known one of the same spelling whose end lies this near."""


@dataclass(frozen=True, slots=True)
class _Speech:
    """What everybody says: 16-bit mono at ``RATE``, and (word, end in seconds) where the ends are known."""

    pcm: bytes
    words: list[tuple[str, float]]

    def from_offset(self, offset: int) -> bytes:
        """The same, beginning at byte ``offset`` and going round."""
        return self.pcm[offset:] + self.pcm[:offset]

    def true_end(self, offset: int) -> Callable[[Word], float | None]:
        """Finds the known end of a heard word, for a session that began at byte ``offset``."""
        ends: dict[str, list[float]] = {}
        for text, end in self.words:
            ends.setdefault(text, []).append(end)
        length, began = len(self.pcm) / (2 * RATE), offset / (2 * RATE)

        def find(word: Word) -> float | None:
            here = word.end + began
            close = [end - here % length for end in ends.get(" ".join(normalize(word.text)), [])]
            nearest = min(close, key=abs, default=None)
            return word.end + nearest if nearest is not None and abs(nearest) < SAME_WORD_SECONDS else None

        return find


@dataclass(slots=True)
class _Load:
    """What the sessions together saw."""

    meters: list[LagMeter] = field(default_factory=list[LagMeter])
    lost: list[str] = field(default_factory=list[str])
    late: list[float] = field(default_factory=list[float])
    """How long after its moment the generator sent each piece: its own lateness, not the daemon's."""


def measure(
    files: list[Path],
    *,
    count: int,
    seconds: float,
    model: str | None = None,
    threads: int | None = None,
    url: str | None = None,
    timed: Path | None = None,
    quick: bool = False,
) -> dict[str, object]:
    """Run ``count`` sessions of ``seconds`` each.

    Args:
        files: what is spoken, unless ``timed`` is given.
        timed: a directory as ``bench.words`` reads it. It is spoken, and lags count from the word ends known there,
            words that were misheard left out. Without it they count from the word times of the final texts.
        url: of a running daemon (its CPU and memory are then unknown); without, one is started for the measurement.
        quick: whether the one that is started hears finals once.

    Raises:
        RuntimeError: the daemon did not become ready.
    """
    speech = _timed_speech(timed) if timed is not None else _Speech(_joined(files), [])
    if url is not None:
        load = asyncio.run(_run(url, speech, count, seconds))
        return _result(load, count, seconds, threads)
    flags = ["--sessions", str(count), "--tts-model", "none"]
    flags += ["--asr-model", model] if model else []
    flags += ["--threads", str(threads)] if threads else []
    flags += ["--finals", "quick"] if quick else []
    with served(flags) as daemon:
        before, own_before, began = cpu_seconds(daemon.process), time.process_time(), time.perf_counter()
        load = asyncio.run(_run(daemon.url, speech, count, seconds))
        wall = time.perf_counter() - began
        after, resident = cpu_seconds(daemon.process), resident_bytes(daemon.process)
        result = _result(load, count, seconds, threads)
        result |= {
            "daemon_cores": round((after - before) / wall, 3) if before is not None and after is not None else None,
            "generator_cores": round((time.process_time() - own_before) / wall, 3),
            "daemon_resident_bytes": resident,
            "ready_seconds": round(daemon.ready_seconds, 2),
        }
    result["machine"] = machine(threads or budget())
    return result


async def _run(url: str, speech: "_Speech", count: int, seconds: float) -> _Load:
    load = _Load()
    async with asyncio.TaskGroup() as tasks:
        for index in range(count):
            tasks.create_task(_session(url, speech, index / count, seconds, load))
    return load


async def _session(url: str, speech: "_Speech", share: float, seconds: float, load: _Load) -> None:
    """One speaker. ``share`` 0…1 is where in the speech, and in a second, it begins."""
    await asyncio.sleep(share)
    offset = int(share * len(speech.pcm)) // 2 * 2
    meter = LagMeter(speech.true_end(offset) if speech.words else None)
    options = StreamOptions(sample_rate=RATE, endpointing=ENDPOINTING_MS)
    try:
        async with AsyncStream(url, options, timeout=30) as stream, asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(_speak(stream, speech.from_offset(offset), seconds, meter, load))
            async for event in stream:
                if isinstance(event, Results):
                    meter.received(event, time.monotonic())
            if not sending.done():
                load.lost.append("ended early")
                sending.cancel()
    except* ListenError as group:
        load.lost.append(str(group.exceptions[0]))
    load.meters.append(meter)


async def _speak(stream: AsyncStream, speech: bytes, seconds: float, meter: LagMeter, load: _Load) -> None:
    size = int(RATE * PIECE_SECONDS) * 2
    start = time.monotonic()
    for number in range(int(seconds / PIECE_SECONDS)):
        begin = number * size % (len(speech) - size)
        until = (number + 1) * PIECE_SECONDS
        await asyncio.sleep(max(0.0, start + until - time.monotonic()))
        await stream.send(speech[begin : begin + size])
        now = time.monotonic()
        # Counted from when the piece was due: a late generator must not flatter the daemon.
        meter.sent(until, start + until)
        load.late.append(now - start - until)
    await stream.close_stream()


def _result(load: _Load, count: int, seconds: float, threads: int | None) -> dict[str, object]:
    partial = [lag for meter in load.meters for lag in meter.partial]
    final = [lag for meter in load.meters for lag in meter.final]
    return {
        "sessions": count,
        "seconds": seconds,
        "threads": threads or budget(),
        "lost_sessions": len(load.lost),
        "lost_because": sorted(set(load.lost))[:5],
        "words": len(partial),
        "utterances": len(final),
        "partial_lag_ms": _spread(partial),
        "final_lag_ms": _spread(final),
        "final_lag_beyond_endpointing_ms": _spread([lag - ENDPOINTING_MS / 1000 for lag in final]),
        "generator_late_ms": _spread(load.late),
    }


def _spread(values: list[float]) -> dict[str, float | None]:
    if not values:
        return {"p50": None, "p95": None, "worst": None}
    p50, p95, worst = percentile(values, 0.5), percentile(values, 0.95), max(values)
    return {"p50": round(1000 * p50, 1), "p95": round(1000 * p95, 1), "worst": round(1000 * worst, 1)}


def _joined(files: list[Path]) -> bytes:
    """The recordings one after another with pauses, 16-bit mono at ``RATE``."""
    generator = np.random.default_rng(0)
    parts: list[bytes] = []
    for file in files:
        pcm, rate, channels = pcm16(file)
        samples = np.frombuffer(pcm, "<i2").reshape(-1, channels).mean(axis=1).astype(np.float32)
        samples = soxr.resample(samples, rate, RATE) if rate != RATE else samples
        pause = generator.normal(0, 4, int(PAUSE_SECONDS * RATE))  # digital silence never comes from a microphone
        parts.append(np.clip(np.concatenate([samples, pause]), -32768, 32767).astype("<i2").tobytes())
    return b"".join(parts)


def _timed_speech(directory: Path) -> "_Speech":
    """The clips of ``directory`` joined, with the known end of each word: where the next one of its clip begins."""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (directory / "index.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    rows = rows[:TIMED_CLIPS]
    parts, words, position = list[bytes](), list[tuple[str, float]](), 0.0
    for row in rows:
        texts, starts = normalize(row["text"]), {int(index): float(start) for index, start in row["words"]}
        ends = {index: starts[index + 1] for index in starts if index + 1 in starts} | {
            len(texts) - 1: float(row["end"])
        }
        words += [(texts[index], position + end) for index, end in ends.items() if index < len(texts)]
        parts.append(_joined([directory / row["file"]]))
        position += len(parts[-1]) / (2 * RATE)
    return _Speech(b"".join(parts), words)
