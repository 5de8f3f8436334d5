"""Is what is heard live what is heard in the file? With rounding that depends on the crowd, and with skipped interims.

Finals are the same by construction for f32, f16 and q8_0. For q4_k llama.cpp computes a single row by another kernel
than several, so a session in a crowd may differ from the same one alone: here the differing words are counted.

usage: python -m bench.identity [--data DIR] [--model NAME|DIR] [--limit N] [--sessions N] [--as-it-is]
"""

import argparse
import json
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench import widened
from bench.ear import finals, path_sound
from bench.figures import lines
from bench.wer import distance
from engines import store
from streaming.model import AsrModel
from streaming.options import ListenOptions

Floats = npt.NDArray[np.float32]

DATA: Final = Path(__file__).parent.parent / "tests" / "data"
PIECES: Final = (0.02, 0.1, 0.25)
"""Seconds of audio in each call, of live callers."""
LATE_PIECES: Final = (0.5, 1.7, 3.0)
"""Seconds of audio in each call, of callers that fall behind, for whom most interims are skipped."""


def measure(
    data: Path = DATA,
    model: str | None = None,
    *,
    limit: int | None = None,
    sessions: int = 8,
    as_it_is: bool = False,
    threads: int | None = None,
) -> dict[str, object]:
    """Hear the clips of ``data`` as files, live, live with skipped interims, and live among ``sessions``.

    Args:
        as_it_is: use the model's own decoder instead of one in q4_k_m.

    Raises:
        ModelNotFound, ManifestError: no usable model.
    """
    rows: list[dict[str, Any]] = [json.loads(line) for line in (data / "index.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["seconds"] < 60][:limit]
    source = store.find(model or store.default())
    with tempfile.TemporaryDirectory() as folder:
        kind = AsrModel if as_it_is else widened.WidenedModel
        asr = kind(source if as_it_is else widened.write(source, Path(folder)), sessions=sessions, threads=threads)
        with closing(asr):
            sounds = [np.concatenate(list(path_sound(data / row["file"])(asr.sample_rate))) for row in rows]
            files = [final_texts(asr, sound, None, 0) for sound in sounds]
            before = asr.work
            live = [final_texts(asr, sound, PIECES, seed) for seed, sound in enumerate(sounds)]
            ticks = asr.work.ticks - before.ticks
            before = asr.work
            late = [final_texts(asr, sound, LATE_PIECES, seed) for seed, sound in enumerate(sounds)]
            skipped = asr.work.ticks_skipped - before.ticks_skipped
            lane = asr.engine.lane
            calls = lane.jobs - lane.batches
            with ThreadPoolExecutor(sessions) as pool:
                crowd = list(pool.map(final_texts, repeat(asr), sounds, repeat(PIECES), range(len(sounds))))
            return {
                "model": asr.name,
                "decoder": asr.manifest.decoder.quantization,
                "clips": len(rows),
                "words": sum(len(text.split()) for texts in files for text in texts),
                "live": {"ticks": ticks, **compared(files, live)},
                "live, ticks skipped": {"skipped": skipped, **compared(files, late)},
                f"live among {sessions}": {
                    "rows_that_shared_a_call": lane.jobs - lane.batches - calls,
                    **compared(files, crowd),
                },
            }


def final_texts(asr: AsrModel, sound: Floats, pieces: Sequence[float] | None, seed: int) -> list[str]:
    """The final texts of one recording; ``pieces``: seconds a call, drawn at random, None for the file at once."""
    random_ = random.Random(seed)
    texts: list[str] = []
    with closing(asr.listener(ListenOptions(interim=pieces is not None))) as listener:
        at = 0
        while at < len(sound):
            size = len(sound) if pieces is None else int(random_.choice(pieces) * asr.sample_rate)
            listener.feed(sound[at : at + size])
            texts += finals(listener.drain())
            at += size
        listener.finish()
        texts += finals(listener.drain())
    return texts


def compared(files: list[list[str]], others: list[list[str]]) -> dict[str, object]:
    """How many words and clips differ."""
    pairs = list(zip(files, others, strict=True))
    return {
        "clips_that_differ": sum(texts != other for texts, other in pairs),
        "words_that_differ": sum(distance(" ".join(a).split(), " ".join(b).split()) for a, b in pairs),
    }


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--model")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--as-it-is", action="store_true", help="the model's own decoder, not one in q4_k_m")
    given = parser.parse_args()
    lines(measure(given.data, given.model, limit=given.limit, sessions=given.sessions, as_it_is=given.as_it_is))


if __name__ == "__main__":
    main()
