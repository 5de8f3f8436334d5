"""Is live live? The daemon with its default settings, measured over the wire: lateness, load, floods, admission.

Each row starts a daemon of its own. With ``--against DIR`` the daemon of another checkout (with a ``.venv``) runs every
row directly after ours, so that figures and their ratio are of one machine in one hour. Lateness of a final counts from
the arrival of the audio that completes its endpointing silence, that of a word from the arrival of its last sample.

usage: python -m bench.live [--against DIR] [--rows one,eight,…] [--seconds S] [--minutes M] [--json FILE]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from bench.clips import index
from bench.flood import flooded
from bench.probe import machine
from bench.served import Served, python, served
from bench.sessions import OPTIONS, Meter, Session, Speech, result, run, session, sessions, spread, timed_speech
from bench.wer import rate
from clients.options import StreamOptions
from clients.transcription import transcribe
from engines.threads import budget

TESTS: Final = Path(__file__).parent.parent / "tests"
"""The folder of the tests, which is in a clone but not in an installed package."""
SECONDS: Final = 60.0
"""Seconds of a row."""
LONG_SESSIONS: Final = 20
"""The number of long sessions."""
LONG_MINUTES: Final = 4.0
"""Minutes of each of them."""
FILES: Final = 40
"""Recordings of tests/data that are transcribed as files."""
FED_CLIPS: Final = 10
"""Synthetic clips that the listeners of the row ``feed`` hear."""
MOST: Final = 48
"""Sessions that the row ``admission`` opens at most."""
OPENED_EVERY: Final = 1.5
"""Seconds between the openings of two of them."""

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is said, and for how long: seconds of a row, minutes of the long sessions."""

    speech: Speech
    seconds: float
    minutes: float


def crowd(count: int, options: StreamOptions = OPTIONS) -> Callable[[Plan, Path | None], Figures]:
    """A row of ``count`` sessions that ask for the same."""

    def measure(plan: Plan, checkout: Path | None) -> Figures:
        with served((), checkout) as daemon:
            return run(daemon, plan.speech, count, plan.seconds, options)

    return measure


def long(plan: Plan, checkout: Path | None) -> Figures:
    """Whether every one of ``LONG_SESSIONS`` ends soon after its last audio."""
    with served((), checkout) as daemon:
        return run(daemon, plan.speech, LONG_SESSIONS, 60 * plan.minutes)


def flood(plan: Plan, checkout: Path | None) -> Figures:
    """One speaker alone, then beside the clients of ``bench.flood``."""

    async def both(daemon: Served) -> Figures:
        alone = await sessions(daemon.url, plan.speech, 1, plan.seconds)
        async with flooded(daemon.url, plan.speech) as seen:
            await asyncio.sleep(1)
            meter = Meter(daemon.process)
            beside = await sessions(daemon.url, plan.speech, 1, plan.seconds)
            used = meter.read()
        return {
            "alone": _lateness(alone),
            "beside": _lateness(beside),
            "daemon_cores": used.cores,
            "generator_cores": used.generator_cores,
            "fast_seconds_sent": round(seen.fast_seconds),
            "one_byte_frames_sent": seen.tiny_frames,
            "flood_sessions_refused": seen.refused,
            "flood_sessions_ended": seen.ended,
        }

    with served((), checkout) as daemon:
        return asyncio.run(both(daemon))


def admission(plan: Plan, checkout: Path | None) -> Figures:
    """Open a session every ``OPENED_EVERY`` seconds until one is refused; how late those inside are from then on."""

    async def fill(daemon: Served) -> Figures:
        stop, opened = asyncio.Event(), list[asyncio.Task[Session]]()
        longest = plan.seconds + MOST * OPENED_EVERY
        while len(opened) < MOST and not any(task.done() for task in opened):
            share = len(opened) / MOST
            opened.append(asyncio.create_task(session(daemon.url, plan.speech, share, longest, stop)))
            await asyncio.sleep(OPENED_EVERY)
        full = time.monotonic()
        await asyncio.sleep(plan.seconds)
        stop.set()
        load = await asyncio.gather(*opened)
        late = [lag for s in load for lag, due in zip(s.finals, s.moments, strict=True) if due >= full]
        figures = {name: value for name, value in result(load).items() if name in _ADMISSION}
        return {"sessions_inside": sum(s.heard > 0 for s in load), **figures, "then_final_ms": spread(late)}

    with served((), checkout) as daemon:
        return asyncio.run(fill(daemon))


_ADMISSION: Final = ("refused_sessions", "lost_sessions", "lost_because", "end_lag_ms", "sessions_that_did_not_end")


def feed(plan: Plan, checkout: Path | None) -> Figures:
    """How long calls of ``Listener.feed`` last, with eight sessions in one process."""
    clips = sorted(str(path) for path in (TESTS / "synthetic").glob("*.opus"))[:FED_CLIPS]
    script = str(Path(__file__).with_name("feeding.py"))
    command = [python(checkout), "-P", script, *clips, "--seconds", str(min(plan.seconds, 20.0))]
    done = subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.PIPE, env={**os.environ})
    return {"feed_ms": json.loads(done.stdout)}


def files(plan: Plan, checkout: Path | None) -> Figures:
    """Processor time a second of the recordings that are transcribed as files, one after the other, and their WER."""
    rows = [row for row in index(TESTS / "data", "file", "text") if str(row["file"]).startswith("clips/")][:FILES]
    with served((), checkout) as daemon:
        transcribe(daemon.url, TESTS / "data" / rows[0]["file"])
        meter = Meter(daemon.process)
        texts = [str(transcribe(daemon.url, TESTS / "data" / row["file"])["text"]) for row in rows]
        used = meter.read()
    seconds = sum(float(row["seconds"]) for row in rows)
    cpu = None if used.cores is None else used.cores * used.wall
    return {
        "clips": len(rows),
        "audio_seconds": round(seconds, 1),
        "cpu_seconds_per_audio_second": None if cpu is None else round(cpu / seconds, 4),
        "times_real_time": round(seconds / used.wall, 1),
        "wer_percent": round(100 * rate((row["text"], text) for row, text in zip(rows, texts, strict=True)), 1),
    }


ROWS: Final[Mapping[str, Callable[[Plan, Path | None], Figures]]] = {
    "one": crowd(1),
    "eight": crowd(8),
    "many": crowd(24),
    "turns": crowd(8, replace(OPTIONS, endpointing=None)),
    "speakers": crowd(8, replace(OPTIONS, speakers=True)),
    "long": long,
    "flood": flood,
    "admission": admission,
    "feed": feed,
    "files": files,
}
"""Name for ``--rows`` → what measures it, on the daemon of a checkout or on our own."""


def _lateness(load: Sequence[Session]) -> Figures:
    found = result(load)
    return {name: found[name] for name in ("final_beyond_endpointing_ms", "word_in_captions_ms", "end_lag_ms")}


def flat(figures: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested figures as one level, names joined by spaces."""
    found = dict[str, Any]()
    for name, value in figures.items():
        nested = isinstance(value, dict)
        found |= flat(cast(Figures, value), f"{before}{name} ") if nested else {before + name: value}
    return found


def table(name: str, ours: Figures, theirs: Figures | None) -> str:
    """A measured row as a Markdown table: a line a figure, and how many times theirs is ours."""
    one, other = flat(ours), flat(theirs or {})
    # Figures of those who were let in say little without how many were not.
    title = f"{name}: {one['let_in']} of {one['sessions']} let in" if "let_in" in one else name
    lines = [[title, "here", *(["against", "against / here"] if theirs is not None else [])]]
    for figure, value in one.items():
        line = [figure, _shown(value)]
        if theirs is not None:
            line += [_shown(other.get(figure)), _ratio(value, other.get(figure))]
        lines.append(line)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "–"  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return "–" if value is None else str(value)


def _ratio(ours: Any, theirs: Any) -> str:
    known = isinstance(ours, int | float) and isinstance(theirs, int | float) and ours > 0
    return f"{theirs / ours:.2f}" if known else ""


def measure(plan: Plan, rows: Sequence[str], against: Path | None) -> dict[str, Figures]:
    """Measure ``rows`` and print each when it is there; what was found, by row, and of whom."""
    found = dict[str, Figures]()
    for name in rows:
        ours = ROWS[name](plan, None)
        theirs = ROWS[name](plan, against) if against is not None else None
        print(table(name, ours, theirs) + "\n", flush=True)
        found[name] = {"here": ours} | ({} if theirs is None else {"against": theirs})
    return found


def plan(seconds: float = SECONDS, minutes: float = LONG_MINUTES) -> Plan:
    """The rows' plan, with the synthetic clips of the tests, whose word ends are known."""
    return Plan(timed_speech(TESTS / "synthetic"), seconds, minutes)


def main(arguments: list[str] | None = None) -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="bench.live", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout with a .venv")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"only these, by commas: {','.join(ROWS)}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of the sessions of a row")
    parser.add_argument("--minutes", type=float, default=LONG_MINUTES, help="length of the long sessions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for all figures")
    given = parser.parse_args(arguments)
    rows = given.rows.split(",")
    if wrong := [name for name in rows if name not in ROWS]:
        print(f"--rows: no rows named {', '.join(wrong)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    if given.against is not None and not Path(python(given.against)).exists():
        print(f"--against: {given.against} has no .venv/bin/python", file=sys.stderr)
        return 2
    if not TESTS.exists():
        print("bench.live needs the recordings of a clone's tests/", file=sys.stderr)
        return 2
    found = measure(plan(given.seconds, given.minutes), rows, given.against)
    probe = machine(budget())
    print(json.dumps(probe))
    if given.json:
        given.json.write_text(json.dumps({"machine": probe, **found}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
