"""Hearing at Qwen3-ASR-0.6B's dimensions, and antirez/qwen-asr beside it in the same run.

Weights are random (``make bench-official`` makes them): a speed does not depend on what they are. The other program is
measured where its source is given (bench/peer.py); no figure of another machine is kept. A table of what was promised,
and what is missing of it, follows the figures of each model.

usage: python -m bench.official [--peer SOURCE] DIR…     (a checkpoint beside the directories is the peer's)
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench import asr, peer
from bench.figures import lines
from bench.row import Row, table
from engines.llama import VNNI, instruction_sets

CLIP_SECONDS: Final = 11.0
"""Seconds of the recording that is heard at once."""
STREAM_SECONDS: Final = 45.0
"""Seconds of the recording that is heard live."""
TICK_SECONDS: Final = 2.0
"""Seconds between two hypotheses of the live recording: those of the other program's stream."""
TICK_TOKENS: Final = 12
"""Tokens by which the text grows in a tick: fast speech."""
RECORDING: Final = Path(__file__).parent.parent / "tests" / "data" / "recordings" / "lj.opus"

GOALS: Final = {
    True: {"encoder_ms": 4.0, "prefill_ms_per_row": 3.0, "decode_ms_per_token": 3.0, "tick_ms": 4.0},
    False: {"encoder_ms": 3.0, "prefill_ms_per_row": 3.0, "decode_ms_per_token": 2.0},
}
"""How many times as fast as antirez/qwen-asr ours is to be, with VNNI and without: the clip's encoder; a row; a token;
a tick, encoder and decoder together."""
TICK_GOAL_MS: Final = {True: 700.0, False: 1600.0}
"""The goal for a tick in milliseconds on two cores, with VNNI and without."""
RESIDENT_GOAL: Final = 1.2e9
"""How many bytes a model may take in memory with the encoder and decoder of ``RESIDENT_OF``; other models have no
goal."""
RESIDENT_OF: Final = ("int8", "q8_0")


def measure(
    model: Path, theirs: Mapping[str, float] | None = None, audio: Path = RECORDING, *, threads: int = 2
) -> dict[str, object]:
    """What a clip and a tick cost, and how often that goes into ``theirs``, what they cost antirez/qwen-asr.

    Raises:
        As ``asr.measure``.
    """
    # The stream first: what stays resident after it is its own.
    live: Any = asr.measure(
        audio, str(model), threads=threads, tick=TICK_SECONDS, force_tokens=TICK_TOKENS, seconds=STREAM_SECONDS
    )
    clip: Any = asr.measure(audio, str(model), threads=threads, force_tokens=4 * TICK_TOKENS, seconds=CLIP_SECONDS)
    phases = clip["phases"]
    encoder = sum(phases[name]["seconds"] for name in ("mel", "stem", "body"))
    ours = {
        "encoder_ms": 1000 * encoder * CLIP_SECONDS / clip["audio_seconds"],
        "prefill_ms_per_row": phases["prefill"]["ms_per_row"],
        "decode_ms_per_token": phases["decode"]["ms_per_token"],
        "tick_ms": live["ticks"]["mean_ms"],
    }
    times = {name: round(value / max(ours[name], 1e-9), 2) for name, value in (theirs or {}).items()}
    return {
        "encoder": clip["encoder"],
        "decoder": clip["decoder"],
        **{name: round(value, 2) for name, value in ours.items()},
        "times_antirez": times,
        "vnni": not instruction_sets().isdisjoint(VNNI),
        "tick_rows": round(live["phases"]["prefill"]["rows"] / max(live["ticks"]["count"], 1), 1),
        "resident_bytes": live["resident_bytes"],
        "machine": live["machine"],
    }


def promised(measured: dict[str, Any]) -> list[Row]:
    """A row for each goal, with what ``measure`` gave, and one of memory; none of the peer where it was not there."""
    times = measured["times_antirez"]
    goals = GOALS[measured["vnni"]] if times else {}
    rows = [_row(name, times[name], goal, measured[name]) for name, goal in goals.items()]
    tick, most = measured["tick_ms"], TICK_GOAL_MS[measured["vnni"]]
    rows.append(Row("tick of 2 s", f"{tick:.4g} ms{_gap(tick / most)}", f"≤ {most:g} ms", tick <= most))
    resident = measured["resident_bytes"]
    reached = f"{resident / 1e9:.3f} GB"
    if (measured["encoder"], measured["decoder"]) != RESIDENT_OF:
        return [*rows, Row("resident", reached)]
    goal = f"≤ {RESIDENT_GOAL / 1e9:g} GB"
    return [*rows, Row("resident", reached + _gap(resident / RESIDENT_GOAL), goal, resident <= RESIDENT_GOAL)]


def _row(name: str, times: float, goal: float, milliseconds: float) -> Row:
    what, unit = name.split("_ms")
    per = unit.replace("_per_", " a ")
    return Row(
        what,
        f"{times:.2f} × antirez ({milliseconds:.4g} ms{per}){_gap(goal / max(times, 1e-9))}",
        f"≥ {goal:g} ×",
        times >= goal,
    )


def _gap(cost: float) -> str:
    """What is missing where ``cost``, in units of what was allowed, is above 1."""
    return f", {100 * (cost - 1):.1f} % too much" if cost > 1 else ""


def main() -> None:
    """Print figures and table of every model, the peer's first."""
    parser = argparse.ArgumentParser(prog="bench.official", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="DIR")
    parser.add_argument(
        "--peer", type=Path, metavar="SOURCE", help="of antirez/qwen-asr; left out where it is not there"
    )
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    theirs = None
    if given.peer is not None and given.peer.is_dir():
        theirs = peer.measure(
            given.peer,
            given.models[0].parent / "checkpoint",
            RECORDING,
            threads=given.threads,
            clip=CLIP_SECONDS,
            stream=STREAM_SECONDS,
            tokens=TICK_TOKENS,
        )
        lines({"antirez/qwen-asr": {name: round(value, 2) for name, value in theirs.items()}})
    for model in given.models:
        figures: Any = measure(model, theirs, threads=given.threads)
        lines({f"hearing at released dimensions, {model}": figures})
        print(f"\n{figures['encoder']} + {figures['decoder']}\n{table(promised(figures))}\n", flush=True)


if __name__ == "__main__":
    main()
