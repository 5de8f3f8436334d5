"""What hearing an unsure final at other speeds gives and costs, for several bounds of being unsure.

``python -m bench.hearings --shards speech/en-train-0*.tar --only run.json``: word errors by corpus, the share of finals
that were heard again, and processor time a final, everything between the clip and its text included. The bound is
chosen on clips that the model's training held out (``--only``), never on those of the test split.
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.clips import Clip, names
from bench.corpora import as_placed, score
from bench.ear import Ear, file_sound
from bench.material import Material, progress
from bench.row import percent
from streaming.doubt import UNSURE

BOUNDS: Final = (-math.inf, -1.6, -1.2, UNSURE, 0.0)
"""Heard once as quick finals are, rarely again, less often than it is, as it is, always."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One bound: texts of the clips, finals, those that were heard again, further hearings, processor seconds."""

    bound: float
    texts: list[str]
    finals: int
    again: int
    hearings: int
    seconds: float


def hear(ear: Ear, clips: Sequence[Clip], bound: float) -> Heard:
    """Hear ``clips`` one after the other with ``bound`` for ``AsrModel.unsure``; -inf: quickly, without conferring."""
    ear.model.unsure = bound
    before = ear.model.work
    texts = list[str]()
    began = time.process_time()
    with progress(f"bound {bound}") as report:
        for i, clip in enumerate(clips):
            texts.append(ear.text(file_sound(clip.audio)))
            report((i + 1) / len(clips))
    seconds, after = time.process_time() - began, ear.model.work
    return Heard(
        bound,
        texts,
        after.finals - before.finals,
        after.heard_again - before.heard_again,
        after.hearings - before.hearings,
        seconds,
    )


def table(clips: Sequence[Clip], runs: Sequence[Heard]) -> str:
    """A Markdown table, a line a bound."""
    groups = as_placed(clips)
    parts = [groups[key] for key in sorted(groups)]
    head = [
        "unlikeliest token below",
        "WER",
        *(name for _, name in sorted(groups)),
        "finals heard again",
        "hearings more a final",
        "CPU a final",
    ]
    lines = [head, ["---"] * len(head)]
    for run in runs:
        of = dict(zip((clip.file for clip in clips), run.texts, strict=True))
        rates = [score(clips, run.texts), *(score(g, [of[clip.file] for clip in g]) for g in parts)]
        lines.append(
            [
                "never" if run.bound == -math.inf else f"{math.exp(run.bound):.2f} (log {run.bound:g})",
                *(f"{100 * rate.wer:.2f}" for rate in rates),
                percent(run.again / max(run.finals, 1)),
                f"{run.hearings / max(run.finals, 1):.2f}",
                f"{1000 * run.seconds / max(run.finals, 1):.0f} ms",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def bound(text: str) -> float:
    """A bound of the command line."""
    return -math.inf if text == "never" else float(text)


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench.hearings", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--shards", nargs="+", type=Path, required=True, help="tars of clips")
    parser.add_argument("--only", type=Path, help="names of clips, a line each, or a run.json: its dev clips")
    parser.add_argument("--limit", type=int, help="at most so many clips of a corpus")
    parser.add_argument("--asr-model", help="name or directory of the hearing model")
    parser.add_argument("--bounds", nargs="+", type=bound, default=list(BOUNDS), help="logarithms, or never")
    given = parser.parse_args(arguments)
    only = names(given.only) if given.only else None
    material = Material(Path(), given.shards, only=only, hearing=given.asr_model, limit=given.limit)
    clips = [clip.mended() for clip in material.clips]
    if not clips:
        print("--only: none of these clips is in --shards", file=sys.stderr)
        return 2
    with closing(Ear(material.hearing_model, threads=1)) as ear:
        if not ear.model.doubts:
            print(f"{ear.model.name} is too large to be heard again", file=sys.stderr)
            return 2
        print(f"{ear.model.name}, {len(clips)} clips")
        print(table(clips, [hear(ear, clips, bound) for bound in given.bounds]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
