"""Hearing at Qwen3-ASR-0.6B's dimensions, beside antirez/qwen-asr.

Weights are random (``make bench-official`` makes them): a speed does not depend on what they are. The other program's
figures were measured once, its BLAS build with random weights of the same dimensions on two cores of an AMD EPYC (Zen
5): a clip of 11 s at once, and 45 s in chunks of 2 s with 12 tokens each. The probe beside ours says how fast the
machine was. A table of what was promised, and what is missing of it, follows the figures of each model.

usage: python -m bench.official DIR…
"""

import sys
from pathlib import Path
from typing import Any, Final

from bench import asr
from bench.figures import lines
from bench.row import Row, table

CLIP_SECONDS: Final = 11.0
STREAM_SECONDS: Final = 45.0
TICK_SECONDS: Final = 2.0
TICK_TOKENS: Final = 12
RECORDING: Final = Path(__file__).parent.parent / "tests" / "data" / "recordings" / "lj.opus"

THEIRS: Final = {
    "encoder_ms": 1300.0,
    "prefill_ms_per_row": 13.6,
    "decode_ms_per_token": 60.0,
    "tick_ms": 66_500 / 22.5,
}
"""antirez/qwen-asr: the clip's encoder; a row; a token (44 to 75 ms); a tick, encoder and decoder together."""

GOALS: Final = {"encoder_ms": 6.0, "prefill_ms_per_row": 3.0, "decode_ms_per_token": 3.0, "tick_ms": 4.0}
"""How many times as fast as theirs ours is to be."""
RESIDENT_GOAL: Final = 1.2e9
"""Bytes, of an encoder and a decoder of ``RESIDENT_OF``; nothing is promised of others."""
RESIDENT_OF: Final = ("int8", "q8_0")


def measure(model: Path, audio: Path = RECORDING, *, threads: int = 2) -> dict[str, object]:
    """What a clip and a tick cost, and how often that goes into what they cost antirez/qwen-asr.

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
    return {
        "encoder": clip["encoder"],
        "decoder": clip["decoder"],
        **{name: round(value, 2) for name, value in ours.items()},
        "times_antirez": {name: round(THEIRS[name] / max(value, 1e-9), 2) for name, value in ours.items()},
        "tick_rows": round(live["phases"]["prefill"]["rows"] / max(live["ticks"]["count"], 1), 1),
        "resident_bytes": live["resident_bytes"],
        "machine": live["machine"],
    }


def promised(measured: dict[str, Any]) -> list[Row]:
    """A row for each goal, with what ``measure`` gave, and one of memory."""
    rows = [_row(name, measured["times_antirez"][name], goal, measured[name]) for name, goal in GOALS.items()]
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


if __name__ == "__main__":
    for name in sys.argv[1:]:
        figures: Any = measure(Path(name))
        lines({f"hearing at released dimensions, {name}": figures})
        print(f"\n{figures['encoder']} + {figures['decoder']}\n{table(promised(figures))}\n", flush=True)
