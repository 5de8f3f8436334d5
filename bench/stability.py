"""Committed words: how many of a final's words are committed well before it, and how many it takes back.

Recordings are heard live in pieces of 100 ms; all times are the session's own audio clock. A final's word counts as
committed early where a word that was committed ``EARLY_SECONDS`` before the final stands in its place.
The more certain a rule wants to be, the fewer words are early and the fewer are taken back: ``--bounds`` measures that
curve, and a rule is chosen on it with clips that neither the training nor the test split knows (``--only run.json``).

usage: python -m bench.stability DIR [--limit N] [--bounds -2 -1 …] [--plot FILE]
       python -m bench.stability --shards TAR… [--only FILE] …
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.clips import index, names
from bench.committed import EARLY_SECONDS, Commits, Committed
from bench.ear import SESSIONS, Sound, file_sound, path_sound
from bench.figures import lines
from bench.material import SEED, Material, progress
from bench.row import NotMeasured, Row, at_most, percent
from engines import store
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.stability import Rule

PIECE_SECONDS: Final = 0.1
"""Seconds of audio in a call."""
PAUSE_SECONDS: Final = 1.2
"""Seconds of faint noise behind every recording."""
CLIPS: Final = 250
"""Clips of the sample that is heard."""
LIMIT: Final = 0.01
"""The goal for the share of committed words that are taken back."""
CHOSEN_ON: Final = Path(__file__).parent.parent / "tests" / "data" / "index.jsonl"
"""The recordings with some of which the rule in streaming/stability.py was chosen."""


def count_committed(asr: AsrModel, sound: Sound) -> Committed:
    """Hear one recording live and count."""
    commits = Commits()
    with closing(asr.listener(ListenOptions())) as listener:

        def said() -> None:
            now = listener.seconds
            for event in listener.drain():
                if isinstance(event, Transcript):
                    committed = event.words if event.is_final else event.words[: event.stable_words]
                    commits.told([word.text for word in committed], now, final=event.is_final)

        size = int(PIECE_SECONDS * asr.sample_rate)
        # Live, an endpoint closes a final: digital silence never comes from a microphone, nor does the end of a file.
        pause = np.random.default_rng(0).normal(0, 1e-4, int(PAUSE_SECONDS * asr.sample_rate)).astype(np.float32)
        for part in (*sound(asr.sample_rate), pause):
            for start in range(0, len(part), size):
                listener.feed(part[start : start + size])
                said()
        listener.finish()
        said()
    return commits.found


Curve = list[tuple[Rule, Committed]]


def its_own(rule: Rule) -> Sequence[Rule]:
    """The model's rule and no other."""
    return [rule]


def sweep(
    directory: Path,
    sounds: Sequence[Sound],
    rules: Callable[[Rule], Sequence[Rule]] = its_own,
    threads: int | None = None,
) -> Curve:
    """Hear ``sounds`` under each of the ``rules`` that follow from the model's own.

    Raises:
        ManifestError: no usable model.
    """
    curve: Curve = []
    with closing(AsrModel(directory, sessions=SESSIONS, threads=threads)) as asr:
        for rule in rules(asr.engine.rule):
            asr.engine.rule = rule
            found, done = Committed(), 0
            with ThreadPoolExecutor(SESSIONS) as pool, progress(f"committed words, bound {rule.bound:g}") as report:
                for one in pool.map(partial(count_committed, asr), sounds):
                    found, done = found + one, done + 1
                    report(done / len(sounds))
            curve.append((rule, found))
    return curve


def measure(
    directory: Path, model: str | None = None, *, threads: int | None = None, limit: int | None = None
) -> dict[str, object]:
    """Hear the recordings of a directory (sound files, and an ``index.jsonl`` of ``file``; the first ``limit``).

    Raises:
        ModelNotFound, ManifestError: no usable model.
        OSError: no ``index.jsonl`` there.
    """
    sounds = recordings(directory)[:limit]
    [(_, found)] = sweep(store.find(model or store.default()), sounds, threads=threads)
    return {"recordings": len(sounds), **figures(found)}


def figures(found: Committed) -> dict[str, object]:
    """For people."""
    return {
        "words": found.words,
        "committed_half_a_second_early": found.early,
        "early_share": round(found.early_share, 3),
        "committed_words": found.committed,
        "committed_words_the_final_lacks": found.retracted,
        "lacking_share": round(found.retracted_share, 4),
    }


def recordings(directory: Path) -> list[Sound]:
    """The recordings that the ``index.jsonl`` of ``directory`` names."""
    return [path_sound(directory / row["file"]) for row in index(directory, "file")]


def committed_row(material: Material) -> list[Row]:
    """The row of ``make eval``: a sample of the clips, those that the rule was chosen on left out."""
    known = _files(CHOSEN_ON)
    clips = material.sample([clip.mended() for clip in material.clips if clip.file not in known], CLIPS, seed=4)
    if not clips:
        raise NotMeasured("no clips were chosen but those of tests/data")
    [(_, found)] = sweep(material.hearing_model, [file_sound(c.audio) for c in clips], threads=material.threads)
    notes = (
        f"{found.retracted} of {found.committed} words on {len(clips)} clips; {percent(found.early_share)} of the "
        f"finals' words are committed {EARLY_SECONDS:g} s before",
    )
    return [at_most("committed words that the final lacks", found.retracted_share, LIMIT, notes=notes)]


def _files(known: Path) -> set[str]:
    """Names of the clips of an ``index.jsonl``, parts of recordings included; none where there is no such file."""
    if not known.is_file():
        return set()
    rows = index(known.parent, "file")
    parts = [part for row in rows for part in row.get("parts", [])]
    return {Path(str(row["file"])).name for row in [*rows, *parts]}


def plot(curve: Curve, file: Path) -> None:
    """Draw words committed early against words taken back, one point a rule, as a PNG.

    Raises:
        ImportError: no matplotlib (the extra ``eval`` has it).
    """
    import_module("matplotlib").use("agg")
    pyplots: Any = import_module("matplotlib.pyplot")
    figure, axes = pyplots.subplots(figsize=(6, 4), layout="constrained")
    shares = [(100 * found.retracted_share, 100 * found.early_share) for _, found in curve]
    axes.plot(*zip(*shares, strict=True), marker="o")
    for (rule, _), (x, y) in zip(curve, shares, strict=True):
        axes.annotate(f"{rule.bound:.2f}", (x, y), textcoords="offset points", xytext=(4, -10))
    axes.set_xlabel("committed words taken back, %")
    axes.set_ylabel(f"words committed {EARLY_SECONDS:g} s before the final, %")
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=120)
    pyplots.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Print a row a rule."""
    parser = argparse.ArgumentParser(prog="bench.stability", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("directory", nargs="?", type=Path, help="sound files and an index.jsonl")
    parser.add_argument("--shards", nargs="+", type=Path, default=[], help="tars of clips instead")
    parser.add_argument("--only", type=Path, help="names of clips, a line each, or a run.json: its dev clips")
    parser.add_argument("--limit", type=int, help="at most so many recordings, drawn from all")
    parser.add_argument("--asr-model", help="name or directory of the hearing model")
    parser.add_argument("--bounds", nargs="+", type=float, help="bounds of the rule, instead of its own")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of the curve")
    given = parser.parse_args(arguments)
    if (given.directory is None) == (not given.shards):
        parser.error("name a directory or --shards")
    if given.directory is not None:
        sounds = recordings(given.directory)
    else:
        material = Material(Path(), given.shards, only=names(given.only) if given.only else None)
        sounds = [file_sound(clip.mended().audio) for clip in material.clips]
    if given.limit is not None and given.limit < len(sounds):
        sounds = random.Random(SEED).sample(sounds, given.limit)

    def rules(own: Rule) -> Sequence[Rule]:
        return [replace(own, bound=bound) for bound in given.bounds] if given.bounds else [own]

    curve = sweep(store.find(given.asr_model or store.default()), sounds, rules)
    for rule, found in curve:
        lines({f"bound {rule.bound:g}, {len(sounds)} recordings": figures(found)})
    if given.plot:
        plot(curve, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
