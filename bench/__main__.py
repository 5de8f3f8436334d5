"""``make bench``: the published figures, one after another, on the bundled recordings and the default model."""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import asr, identity, live, official, stability, tts, voices, words
from bench.figures import lines
from bench.probe import stolen_seconds
from engines.manifest import NAME
from engines.store import BUNDLED, ModelNotFound, default, find

VOICES = (1, 6, 8)
"""The numbers of voices that speak at the same time."""
VOICE_SECONDS = 30.0
"""Seconds for which they speak."""
SYNTHETIC = Path(__file__).parent.parent / "tests" / "synthetic"
CLIPS = SYNTHETIC.parent / "data"
"""The recordings of the tests, which are in a clone but not in an installed package."""
COMPARED = 40
"""The first clips of all corpora, heard live and as files; `python -m bench.identity` hears all of them."""
OFFICIAL = Path(os.environ.get("OFFICIAL_ASR", ".envs/qwen3-asr-0.6b-random"))
"""Where `make bench-official` leaves models of the released dimensions."""


def alone(measure: Callable[..., dict[str, object]], *arguments: Any, **options: Any) -> dict[str, object]:
    """Run a measurement in a process of its own, so that its peak memory is nobody else's.

    Beside it ``stolen_cores``: how many of this machine's cores its host gave to others meanwhile, where that is told.
    """
    began, before = time.monotonic(), stolen_seconds()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        found = pool.submit(measure, *arguments, **options).result()
    after = stolen_seconds()
    if before is None or after is None:
        return found
    return {**found, "stolen_cores": round((after - before) / (time.monotonic() - began), 3)}


def main() -> int:
    """Print word times, committed words, hearing at once, hearing in ticks, live rows, speaking, live voices."""
    recording = BUNDLED / "samples" / "reading.opus"
    timed = SYNTHETIC if SYNTHETIC.exists() else None
    if timed is not None:
        lines({"word times": alone(words.measure, timed)})
    if CLIPS.exists():
        lines({"committed words": alone(stability.measure, CLIPS)})
        lines({"live against file": alone(identity.measure, CLIPS, limit=COMPARED)})
    lines({"hearing a file": alone(asr.measure, recording, None)})
    lines({"hearing live, a tick every 0.25 s": alone(asr.measure, recording, None, tick=0.25)})
    measured = [path for path in sorted(OFFICIAL.glob("q*")) if (path / NAME).exists()]
    for path in measured:
        lines({f"hearing at released dimensions, {path.name}": alone(official.measure, path)})
    if not measured:
        print("hearing at released dimensions: not measured, `make bench-official` makes a model of random weights")
    if timed is not None:
        live.measure(live.plan(), list(live.ROWS), None)
    try:
        model = find(default("tts"))
    except ModelNotFound as error:
        print(f"speaking: not measured, {error}")
        return 0
    lines({"speaking": alone(tts.measure, model)})
    for count in VOICES:
        found = alone(voices.measure, model, count=count, seconds=VOICE_SECONDS)
        lines({f"{count} live voices": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
