"""Live sessions at real-time pace on one daemon: how late it is, what it loses, what it uses.

This process is the load generator; the daemon is another one, started here or found at a given address. So its CPU time
is its own, and the generator's is reported beside it. Clips are spoken with pauses, over and over; each session begins
at a clip of its own and at its own moment, so that no two do the same at once.

Lags count from when a piece of audio was due, not from when it was sent: a late generator must not flatter the daemon.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import soxr

from bench.clips import index, pcm16
from bench.committed import Commits, Committed
from bench.probe import cpu_seconds, machine, resident_bytes, stolen_seconds
from bench.served import Served, served
from bench.wer import normalize
from clients.events import ListenError, Results, Word
from clients.handshake import Refused
from clients.lag import LagMeter, percentile
from clients.options import StreamOptions
from clients.stream import AsyncStream
from engines.threads import budget

PIECE_SECONDS: Final = 0.1
"""Seconds of audio in a message."""
PAUSE_SECONDS: Final = 1.2
"""Seconds between two clips: longer than the silence that ends an utterance."""
ENDPOINTING_SECONDS: Final = 0.6
"""Seconds of silence that end an utterance, where a session names them: then lateness is the daemon's alone."""
RATE: Final = 16000
OPTIONS: Final = StreamOptions(sample_rate=RATE, endpointing=round(1000 * ENDPOINTING_SECONDS))
"""What a session asks for where a row names nothing else."""
TIMED_CLIPS: Final = 60
"""Synthetic clips that are spoken."""
SAME_WORD_SECONDS: Final = 0.4
"""Seconds within which a heard word of the same spelling is taken for a known one."""
STAGGER_SECONDS: Final = 3.0
"""Seconds over which the beginnings of the sessions are spread."""
PATIENCE_SECONDS: Final = 30.0
"""Seconds that a session may take after its last audio before it counts as not ended."""
TOO_MANY: Final = 429
"""The HTTP status with which a full daemon refuses."""


@dataclass(frozen=True, slots=True)
class Speech:
    """Clips one after the other, 16-bit mono at ``RATE``, and what is known of them, in seconds from the beginning.

    Attributes:
        starts: where each clip begins.
        ends: where the speech in each clip ends; empty where nobody knows.
        words: (word, its end); empty where nobody knows.
    """

    pcm: bytes
    starts: list[float]
    ends: list[float]
    words: list[tuple[str, float]]

    @property
    def seconds(self) -> float:
        """The length of one round in seconds."""
        return len(self.pcm) / (2 * RATE)

    def piece(self, begin: float, seconds: float) -> bytes:
        """Audio from ``begin`` on, however many rounds that is."""
        first, size = 2 * round(begin * RATE) % len(self.pcm), 2 * round(seconds * RATE)
        found = self.pcm[first : first + size]
        return found + self.pcm[: size - len(found)]

    def true_end(self, began: float) -> Callable[[Word], float | None]:
        """Finds the known end of a heard word on the clock of a session that began at ``began``."""
        ends: dict[str, list[float]] = {}
        for text, end in self.words:
            ends.setdefault(text, []).append(end)

        def find(word: Word) -> float | None:
            here = word.end + began
            close = [end - here % self.seconds for end in ends.get(" ".join(normalize(word.text)), [])]
            nearest = min(close, key=abs, default=None)
            return word.end + nearest if nearest is not None and abs(nearest) < SAME_WORD_SECONDS else None

        return find

    def utterances(self, began: float, seconds: float) -> list[float]:
        """Ends of all utterances of which, with the endpointing silence, a session of ``seconds`` hears the whole."""
        rounds = range(int((began + seconds) / self.seconds) + 1)
        ends = (
            end + number * self.seconds - began
            for number in rounds
            for start, end in zip(self.starts, self.ends, strict=False)
            if start + number * self.seconds >= began
        )
        return [end for end in ends if _whole(end, seconds)]


def _whole(end: float, heard: float) -> bool:
    """Whether an utterance that ends at ``end`` is over, silence included, in ``heard`` seconds of audio."""
    return end + ENDPOINTING_SECONDS + 2 * PIECE_SECONDS < heard


@dataclass(slots=True)
class Session:
    """What one session saw. Lags are in seconds."""

    meter: LagMeter
    finals: list[float] = field(default_factory=list[float])
    """For each utterance whose end is known: seconds from the piece that completes its endpointing silence to its
    final."""
    moments: list[float] = field(default_factory=list[float])
    """The times at which each of those pieces was due, on the monotonic clock."""
    after: list[float] = field(default_factory=list[float])
    """For each such utterance: seconds from the piece that holds the end of its speech to its final."""
    unanswered: int = 0
    """The number of such utterances without a final, in a session that ended; in one that did not, the wait so far is
    the lag."""
    commits: Commits = field(default_factory=Commits)
    """The words that were committed before their final, by when they came here."""
    interims: int = 0
    heard: float = 0.0
    """Seconds of audio that were sent."""
    ended: bool = False
    """Whether all audio was sent."""
    end_lag: float = math.nan
    """Seconds from the last audio to the daemon's close; infinite where it did not close."""
    refused: bool = False
    lost: str = ""
    late: list[float] = field(default_factory=list[float])
    """Seconds by which the generator sent each piece late: this is its own lateness, not the daemon's."""

    def answered(self, ends: Sequence[float], now: float) -> None:
        """Count the finals of the utterances that end at ``ends``."""
        moments = [self.meter.sent_at(end + ENDPOINTING_SECONDS) for end in ends]
        self.moments += moments
        self.finals += [now - moment for moment in moments]
        self.after += [now - self.meter.sent_at(end) for end in ends]


@dataclass(slots=True)
class Usage:
    """What the daemon used while a block ran."""

    wall: float = 0.0
    cores: float | None = None
    generator_cores: float = 0.0
    stolen_cores: float | None = None
    resident: int | None = None


class Meter:
    """Measures ``Usage`` of a process from its making to ``read``."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._began, self._own, self._cpu = time.monotonic(), time.process_time(), cpu_seconds(process)
        self._stolen = stolen_seconds()

    def read(self) -> Usage:
        wall = time.monotonic() - self._began
        cpu, stolen = cpu_seconds(self._process), stolen_seconds()
        return Usage(
            wall,
            None if cpu is None or self._cpu is None else round((cpu - self._cpu) / wall, 3),
            round((time.process_time() - self._own) / wall, 3),
            None if stolen is None or self._stolen is None else round((stolen - self._stolen) / wall, 3),
            resident_bytes(self._process),
        )


def measure(
    files: list[Path],
    *,
    count: int,
    seconds: float,
    model: str | None = None,
    threads: int | None = None,
    url: str | None = None,
    timed: Path | None = None,
    tokens: float | None = None,
) -> dict[str, object]:
    """Run ``count`` sessions of ``seconds`` each.

    Args:
        files: what is spoken, unless ``timed`` is given.
        timed: a directory as ``bench.words`` reads it. It is spoken, and lags count from the ends known there, words
            that were misheard left out. Without it they count from the word times of the final texts.
        url: of a running daemon (its CPU and memory are then unknown); without, one is started for the measurement.
        tokens: how many a second that daemon's model says, whatever it hears (bench/forced.py): for random weights.

    Raises:
        RuntimeError: the daemon did not become ready.
    """
    speech = timed_speech(timed) if timed is not None else spoken(files)
    if url is not None:
        return result(asyncio.run(sessions(url, speech, count, seconds)))
    flags = ["--sessions", str(count), "--tts-model", "none"]
    flags += ["--asr-model", model] if model else []
    flags += ["--threads", str(threads)] if threads else []
    with served(flags, tokens=tokens) as daemon:
        found = run(daemon, speech, count, seconds) | {"ready_seconds": round(daemon.ready_seconds, 2)}
    return found | {"machine": machine(threads or budget())}


def run(
    daemon: Served,
    speech: Speech,
    count: int,
    seconds: float,
    options: StreamOptions = OPTIONS,
) -> dict[str, object]:
    """``count`` sessions of ``seconds`` on ``daemon``: ``result`` and what it used."""
    meter = Meter(daemon.process)
    load = asyncio.run(sessions(daemon.url, speech, count, seconds, options))
    used = meter.read()
    return result(load) | {
        "daemon_cores": used.cores,
        "daemon_resident_bytes": used.resident,
        "generator_cores": used.generator_cores,
        "stolen_cores": used.stolen_cores,
    }


async def sessions(
    url: str,
    speech: Speech,
    count: int,
    seconds: float,
    options: StreamOptions = OPTIONS,
) -> list[Session]:
    """``count`` sessions side by side, begun over ``STAGGER_SECONDS``."""

    async def later(index: int) -> Session:
        await asyncio.sleep(STAGGER_SECONDS * index / count)
        return await session(url, speech, index / count, seconds, options=options)

    return list(await asyncio.gather(*(later(index) for index in range(count))))


async def session(
    url: str,
    speech: Speech,
    share: float,
    seconds: float,
    stop: asyncio.Event | None = None,
    *,
    options: StreamOptions = OPTIONS,
) -> Session:
    """One speaker, from the first audio to the daemon's closing.

    Args:
        share: 0…1, the clip that it begins with.
        stop: ends it before its time.
        options: what it asks for; its audio is raw at ``RATE``.
    """
    began = speech.starts[int(share * len(speech.starts))]
    found = Session(LagMeter(speech.true_end(began) if speech.words else None))
    due = _Due(speech.utterances(began, seconds))
    try:
        async with (
            AsyncStream(url, options, timeout=30, attempts=0) as stream,
            asyncio.TaskGroup() as tasks,
        ):
            listening = tasks.create_task(_listen(stream, found, due))
            await _speak(stream, speech, began, seconds, found, stop or asyncio.Event())
            last = time.monotonic()
            done, _ = await asyncio.wait([listening], timeout=PATIENCE_SECONDS)
            found.end_lag = time.monotonic() - last if done else math.inf
            if not done:
                listening.cancel()
    except* Refused as group:
        refusal = group.exceptions[0]
        found.refused = isinstance(refusal, Refused) and refusal.status == TOO_MANY
        found.lost = "" if found.refused else str(refusal)
    except* ListenError as group:
        found.lost = str(group.exceptions[0])
    lacking = [end for end in due.ends if _whole(end, found.heard)]
    if math.isinf(found.end_lag):
        found.answered(lacking, time.monotonic())
    else:
        found.unanswered = len(lacking)
    return found


class _Due:
    """Utterances that wait for their finals. ``ends`` are on the session's clock."""

    def __init__(self, ends: Sequence[float]) -> None:
        self.ends = sorted(ends)

    def answered(self, final: Results) -> list[float]:
        """The words that ``final`` answers, which are those that end in its stretch of audio."""
        there = [e for e in self.ends if final.start < e <= final.start + final.duration + SAME_WORD_SECONDS]
        self.ends = [end for end in self.ends if end not in there]
        return there


async def _listen(stream: AsyncStream, found: Session, due: _Due) -> None:
    async for event in stream:
        if not isinstance(event, Results):
            continue
        now = time.monotonic()
        committed = event.words if event.is_final else event.words[: event.stable_words]
        found.commits.told([word.text for word in committed], now, final=event.is_final)
        # What the end of the stream closes, no endpoint did.
        found.meter.received(replace(event, speech_final=False) if found.ended else event, now)
        if event.is_final:
            found.answered(due.answered(event), now)
        else:
            found.interims += 1


async def _speak(
    stream: AsyncStream, speech: Speech, began: float, seconds: float, found: Session, stop: asyncio.Event
) -> None:
    start = time.monotonic()
    for number in range(round(seconds / PIECE_SECONDS)):
        if stop.is_set():
            break
        until = (number + 1) * PIECE_SECONDS
        await asyncio.sleep(max(0.0, start + until - time.monotonic()))
        found.meter.sent(until, start + until)
        await stream.send(speech.piece(began + number * PIECE_SECONDS, PIECE_SECONDS))
        found.late.append(time.monotonic() - start - until)
        found.heard = until
    found.ended = True
    await stream.close_stream()


def result(load: Sequence[Session]) -> dict[str, object]:
    """What the sessions together saw."""
    finals = [lag for each in load for lag in each.finals]
    if not any(each.finals or each.unanswered for each in load):
        finals = [lag - ENDPOINTING_SECONDS for each in load for lag in each.meter.final]
    committed = sum((each.commits.found for each in load), Committed())
    ended = [each.end_lag for each in load if not math.isnan(each.end_lag)]
    return {
        "sessions": len(load),
        "let_in": sum(not each.refused for each in load),
        "refused_sessions": sum(each.refused for each in load),
        "lost_sessions": sum(bool(each.lost) for each in load),
        "lost_because": sorted({each.lost for each in load if each.lost})[:5],
        "utterances": len(finals),
        "utterances_without_final": sum(each.unanswered for each in load),
        "final_beyond_endpointing_ms": spread(finals),
        "final_after_speech_ms": spread([lag for each in load for lag in each.after or each.meter.final]),
        "words": sum(len(each.meter.partial) for each in load),
        "word_in_captions_ms": spread([lag for each in load for lag in each.meter.partial]),
        "committed_early_percent": round(100 * committed.early_share, 1),
        "taken_back_percent": round(100 * committed.retracted_share, 1),
        "interims_a_second": round(sum(e.interims for e in load) / max(sum(e.heard for e in load), 1e-9), 2),
        "end_lag_ms": spread(ended),
        "sessions_that_did_not_end": sum(map(math.isinf, ended)),
        "generator_late_ms": spread([late for each in load for late in each.late]),
    }


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Percentiles in milliseconds of ``values`` in seconds; infinite ones count, and are not shown."""
    shown = {"p50": percentile(values, 0.5), "p95": percentile(values, 0.95), "worst": max(values, default=math.nan)}
    return {name: round(1000 * value, 1) if math.isfinite(value) else None for name, value in shown.items()}


def spoken(files: Sequence[Path]) -> Speech:
    """The recordings one after another with pauses; of their words nothing is known."""
    parts = [_with_pause(file) for file in files]
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1] / (2 * RATE)
    return Speech(b"".join(parts), starts.tolist(), [], [])


def timed_speech(directory: Path) -> Speech:
    """The clips of ``directory`` with the known end of each word: where the next one of its clip begins."""
    rows = index(directory, "file", "text", "words", "end")[:TIMED_CLIPS]
    speech = spoken([directory / row["file"] for row in rows])
    words = list[tuple[str, float]]()
    for row, position in zip(rows, speech.starts, strict=True):
        texts, starts = normalize(row["text"]), {int(index): float(start) for index, start in row["words"]}
        ends = {index: starts[index + 1] for index in starts if index + 1 in starts} | {
            len(texts) - 1: float(row["end"])
        }
        words += [(texts[index], position + end) for index, end in ends.items() if index < len(texts)]
    ends = [position + float(row["end"]) for row, position in zip(rows, speech.starts, strict=True)]
    return Speech(speech.pcm, speech.starts, ends, words)


def _with_pause(file: Path) -> bytes:
    """A recording and a pause, 16-bit mono at ``RATE``. Digital silence never comes from a microphone."""
    pcm, rate, channels = pcm16(file)
    samples = np.frombuffer(pcm, "<i2").reshape(-1, channels).mean(axis=1).astype(np.float32)
    samples = soxr.resample(samples, rate, RATE) if rate != RATE else samples
    pause = np.random.default_rng(0).normal(0, 4, round(PAUSE_SECONDS * RATE))
    return np.clip(np.concatenate([samples, pause]), -32768, 32767).astype("<i2").tobytes()
