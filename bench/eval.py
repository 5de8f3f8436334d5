"""Word error rate of a model on the test split, corpus by corpus, through the listener that the daemon uses."""

import argparse
import io
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.clips import Clip, pcm16, read_shard, samples_of, shards
from bench.figures import lines
from bench.wer import distance, normalize
from engines import store
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions

SESSIONS = 4
"""Clips heard side by side: their single rows share llama.cpp calls. A text is the same alone and in a crowd."""


def measure(
    data: Path,
    model: str | None = None,
    *,
    threads: int | None = None,
    corpora: list[str] | None = None,
    limit: int | None = None,
) -> dict[str, object]:
    """Hear every clip of the test shards below ``data``.

    Args:
        model: name or directory, the default without.
        corpora: only these; all without.
        limit: most clips of a corpus.

    Raises:
        ModelNotFound, ManifestError: no usable model.
    """
    directory = store.find(model or store.default())
    asr = AsrModel.load(directory, sessions=SESSIONS, threads=threads)
    chosen = defaultdict[str, list[Clip]](list)
    for shard in shards(data):
        for clip in read_shard(shard):
            if (not corpora or clip.corpus in corpora) and (limit is None or len(chosen[clip.corpus]) < limit):
                chosen[clip.corpus].append(clip)
    result: dict[str, object] = {}
    seconds = 0.0
    began = time.perf_counter()
    try:
        with ThreadPoolExecutor(SESSIONS) as pool:
            for corpus, clips in sorted(chosen.items()):
                texts = list(pool.map(partial(hear, asr), clips))
                result[corpus] = _score(clips, texts)
                seconds += sum(clip.seconds for clip in clips)
        wall = time.perf_counter() - began
        return {
            "model": asr.name,
            "encoder": asr.manifest.encoder.precision,
            "decoder": asr.manifest.decoder.quantization,
            "corpora": result,
            "audio_hours": round(seconds / 3600, 3),
            "times_real_time": round(seconds / max(wall, 1e-9), 1),
        }
    finally:
        asr.close()


def hear(asr: AsrModel, clip: Clip) -> str:
    """The final text of one clip."""
    listener = asr.listener(ListenOptions(interim=False))
    try:
        events = [
            event
            for part in samples_of(*pcm16(io.BytesIO(clip.audio)), asr.sample_rate)
            for event in listener.feed(part)
        ]
        events += listener.finish()
    finally:
        listener.close()
    return " ".join(event.text for event in events if isinstance(event, Transcript) and event.is_final and event.text)


def _score(clips: list[Clip], texts: list[str]) -> dict[str, object]:
    word_errors = words = character_errors = characters = 0
    for clip, text in zip(clips, texts, strict=True):
        reference, heard = normalize(clip.text), normalize(text)
        word_errors += distance(reference, heard)
        words += len(reference)
        character_errors += distance(list(" ".join(reference)), list(" ".join(heard)))
        characters += len(" ".join(reference))
    return {
        "wer": round(word_errors / max(words, 1), 4),
        "cer": round(character_errors / max(characters, 1), 4),
        "clips": len(clips),
        "words": words,
    }


def main(arguments: list[str] | None = None) -> int:
    """``python -m bench.eval --data DIR``: what ``hearsay bench eval`` prints, and exit code 2 without data."""
    parser = argparse.ArgumentParser(prog="bench.eval", description="Word error rate on the test split.")
    parser.add_argument("--data", default=os.environ.get("HEARSAY_DATA"), help="directory with speech/*-test-*.tar")
    given = parser.parse_args(arguments)
    if not given.data or not shards(Path(given.data)):
        place = f"{given.data} holds no speech/*-test-*.tar" if given.data else "no data directory given"
        print(f"{place}: make eval DATA=DIR, where DIR/speech holds the shards, or set HEARSAY_DATA", file=sys.stderr)
        return 2
    lines(measure(Path(given.data)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
