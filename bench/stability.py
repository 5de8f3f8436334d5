"""Committed words: how much of what is shown is committed, and how much of that the finals lack.

Every recording of a directory (sound files and an ``index.jsonl`` of ``file``) is heard live in pieces of 100 ms.
"""

import json
from pathlib import Path
from typing import Any, Final

from bench.clips import pcm16, samples_of
from engines import store
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions

PIECE_SECONDS: Final = 0.1


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
    asr = AsrModel.load(store.find(model or store.default()), sessions=1, threads=threads)
    shown = stable = 0
    try:
        for row in rows:
            listener = asr.listener(ListenOptions())
            size = int(PIECE_SECONDS * asr.sample_rate)
            for part in samples_of(*pcm16(directory / row["file"]), asr.sample_rate):
                for start in range(0, len(part), size):
                    for event in listener.feed(part[start : start + size]):
                        if isinstance(event, Transcript) and not event.is_final:
                            shown += len(event.words)
                            stable += event.stable_words
            listener.finish()
        work = asr.work
    finally:
        asr.close()
    return {
        "model": asr.name,
        "recordings": len(rows),
        "interims": work.ticks,
        "committed_share_of_shown_words": round(stable / max(shown, 1), 3),
        "committed_words": work.committed_words,
        "committed_words_the_final_lacks": work.retracted_words,
        "lacking_share": round(work.retracted_words / max(work.committed_words, 1), 4),
    }
