"""Committed words on held-out clips: how many the finals lack. Clips that settings were chosen on are left out."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from bench.ear import Ear, file_sound
from bench.material import Material, progress
from bench.row import NotMeasured, Row, at_most, percent
from bench.stability import Shown, shown

CLIPS: Final = 250
LIMIT: Final = 0.01
CHOSEN_ON: Final = Path(__file__).parent.parent / "tests" / "data" / "index.jsonl"
"""streaming/stability.py was set with some of these."""


def commitment_row(material: Material) -> list[Row]:
    """Hear a sample of the clips live, in pieces of 100 ms."""
    known = _files(CHOSEN_ON)
    clips = material.sample([clip.mended() for clip in material.clips if clip.file not in known], CLIPS, seed=4)
    if not clips:
        raise NotMeasured("no clips were chosen but those of tests/data")
    done = 0
    with Ear(material.hearing_model, material.threads) as ear, progress("committed words") as report:
        found = list[Shown]()
        with ThreadPoolExecutor(2) as pool:
            for one in pool.map(partial(shown, ear.model), [file_sound(clip.audio) for clip in clips]):
                found.append(one)
                done += 1
                report(done / len(clips))
        work = ear.model.work
    words, stable = sum(one.words for one in found), sum(one.stable for one in found)
    notes = (
        f"{work.retracted_words} of {work.committed_words} words on {len(clips)} clips; "
        f"{percent(stable / max(words, 1))} of the shown words are committed",
    )
    share = work.retracted_words / max(work.committed_words, 1)
    return [at_most("committed words that the final lacks", share, LIMIT, notes=notes)]


def _files(index: Path) -> set[str]:
    """Names of the clips of an ``index.jsonl``, parts of recordings included; none where there is no such file."""
    if not index.is_file():
        return set()
    rows = [json.loads(line) for line in index.read_text(encoding="utf-8").splitlines()]
    parts = [part for row in rows for part in row.get("parts", [])]
    return {Path(str(row["file"])).name for row in [*rows, *parts]}
