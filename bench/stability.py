"""Committed words: how much of what is shown is committed, and how much of that the finals lack.

Every recording of a directory (sound files and an ``index.jsonl`` of ``file``) is heard live in pieces of 100 ms.
"""

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.ear import Sound, path_sound
from engines import store
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions

PIECE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Shown:
    """Words in all interims of a recording, and how many of them were committed."""

    words: int
    stable: int


def measure(
    directory: Path, model: str | None = None, *, threads: int | None = None, limit: int | None = None
) -> dict[str, object]:
    """Hear the recordings (the first ``limit``) and count.

    Raises:
        ModelNotFound, ManifestError: no usable model.
        OSError: no ``index.jsonl`` there.
    """
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in (directory / "index.jsonl").read_text(encoding="utf-8").splitlines()
    ][:limit]
    asr = AsrModel(store.find(model or store.default()), sessions=1, threads=threads)
    try:
        found = [shown(asr, path_sound(directory / row["file"])) for row in rows]
        work = asr.work
    finally:
        asr.close()
    words, stable = sum(one.words for one in found), sum(one.stable for one in found)
    return {
        "model": asr.name,
        "recordings": len(rows),
        "interims": work.ticks,
        "committed_share_of_shown_words": round(stable / max(words, 1), 3),
        "committed_words": work.committed_words,
        "committed_words_the_final_lacks": work.retracted_words,
        "lacking_share": round(work.retracted_words / max(work.committed_words, 1), 4),
    }


def shown(asr: AsrModel, sound: Sound) -> Shown:
    """Hear one recording live, in pieces of 100 ms. What is committed and retracted, ``asr.work`` counts."""
    words = stable = 0
    with closing(asr.listener(ListenOptions())) as listener:
        size = int(PIECE_SECONDS * asr.sample_rate)
        for part in sound(asr.sample_rate):
            for start in range(0, len(part), size):
                for event in listener.feed(part[start : start + size]):
                    if isinstance(event, Transcript) and not event.is_final:
                        words += len(event.words)
                        stable += event.stable_words
        listener.finish()
    return Shown(words, stable)
