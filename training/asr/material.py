"""What a training run makes of its clips and texts: who is held out, which words are rare."""

import zlib
from collections import Counter
from pathlib import Path

from training.shards import Clip
from training.transcript import transcript

_WITH_SPEAKERS = ("librispeech", "speechocean762", "an4")


def word_counts(text: Path, clips: list[Clip]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for line in text.read_text().splitlines():
        counts.update(transcript(line).split())
    for clip in clips:
        counts.update(transcript(clip.text).split())
    return counts


def rare_words(text: Path, clips: list[Clip]) -> list[str]:
    """Words that occur, but seldom: what keyterms are made of."""
    return sorted(w for w, n in word_counts(text, clips).items() if n < 30 and len(w) > 3)


def split(clips: list[Clip], every: int) -> tuple[list[Clip], list[Clip]]:
    """(held out, kept): one speaker in `every`, or one sentence in `every` of corpora that do not tell speakers apart;
    by a hash, so that every run holds out the same. 0 holds out nothing."""
    if not every:
        return [], clips
    held_out: list[Clip] = []
    kept: list[Clip] = []
    for clip in clips:
        by_text = clip.source not in _WITH_SPEAKERS
        name = f"{clip.source} {transcript(clip.text) if by_text else clip.speaker}"
        (held_out if zlib.crc32(name.encode()) % every == 0 else kept).append(clip)
    return held_out, kept


def evaluation_sets(test: list[Clip], held_out: list[Clip]) -> dict[str, list[Clip]]:
    """Clips that a run is evaluated on, by source; those held out of training are sets of their own."""
    sets: dict[str, list[Clip]] = {}
    for clip in test:
        sets.setdefault(clip.source, []).append(clip)
    for clip in held_out:
        sets.setdefault(f"{clip.source} dev", []).append(clip)
    return sets
