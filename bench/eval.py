"""``make eval``: every row of the evaluation, whatever was reached. Exit code 2 without data, 0 otherwise."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import clips
from bench.beside import condition_rows, cost_row, mark_rows
from bench.cloning import cloning_rows
from bench.codec_quality import codec_rows
from bench.corpora import error_rows, quantised_row
from bench.keyterms import keyterm_rows
from bench.material import Material
from bench.peers import PEERS
from bench.reading import reading_rows
from bench.row import NotMeasured, Row, table
from bench.speakers import speaker_rows
from bench.speaking import speaking_rows
from bench.stability import committed_row
from bench.turns import turn_rows
from bench.weights import size_rows
from bench.wordless import wordless_rows
from engines.manifest import ManifestError
from engines.store import ModelNotFound

GROUPS: Final[dict[str, Callable[[Material], list[Row]]]] = {
    "words": error_rows,
    "marks": mark_rows,
    "conditions": condition_rows,
    "cost": cost_row,
    "wordless": wordless_rows,
    "committed": committed_row,
    "turns": turn_rows,
    "speakers": speaker_rows,
    "keyterms": keyterm_rows,
    "quantised": quantised_row,
    "size": size_rows,
    "speaking": speaking_rows,
    "reading": reading_rows,
    "cloning": cloning_rows,
    "codec": codec_rows,
}
"""Name for ``--rows`` → what measures those rows."""
_WITHOUT_DATA: Final = frozenset(("reading", "size"))
"""Rows that hear no recordings."""


def main(arguments: list[str] | None = None) -> int:
    """``python -m bench.eval --data DIR``."""
    given = _parser().parse_args(arguments)
    data = Path(given.data) if given.data else None
    shards = [Path(path) for path in given.shards] or (clips.shards(data) if data else [])
    chosen = given.rows.split(",") if given.rows else list(GROUPS)
    if not shards and not _WITHOUT_DATA.issuperset(chosen):
        place = f"{data} holds no speech/*-test-*.tar" if data else "no data directory given"
        print(f"{place}: make eval DATA=DIR, where DIR/speech holds the shards, or set HEARSAY_DATA", file=sys.stderr)
        return 2
    if wrong := [name for name in chosen if name not in GROUPS]:
        print(f"--rows: no rows named {', '.join(wrong)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    peers: list[str] = given.peers.split(",") if given.peers else []
    if wrong := [name for name in peers if name not in PEERS]:
        print(f"--peers: no recogniser named {', '.join(wrong)}; there are {', '.join(PEERS)}", file=sys.stderr)
        return 2
    material = Material(
        data or Path(),
        shards,
        only=clips.names(given.only) if given.only else None,
        hearing=given.asr_model,
        speaking=given.tts_model,
        reference=given.reference,
        threads=given.threads,
        limit=given.limit,
        spoken=given.spoken,
        beside=given.beside,
        sentences=given.sentences,
        peers=peers,
        voice=given.voice,
    )
    rows = [row for name in chosen for row in _measure(name, material)]
    print(table(rows))
    if given.json:
        content = [
            {"row": r.name, "reached": r.reached, "goal": r.goal, "status": r.status, "notes": r.notes}
            | {"beside": r.others, **r.details}
            for r in rows
        ]
        given.json.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure(name: str, material: Material) -> list[Row]:
    """The rows of a group; one that says why, where it cannot be measured here."""
    began = time.monotonic()
    print(f"{name} …", file=sys.stderr, flush=True)
    try:
        rows = GROUPS[name](material)
    except (NotMeasured, ModelNotFound, ManifestError) as reason:
        rows = [Row(name, "not measured", "", False, (str(reason),))]
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.eval", description="Everything that is promised of the small models.")
    add = parser.add_argument
    add("--data", default=os.environ.get("HEARSAY_DATA"), help="directory with speech/*-test-*.tar and text/*.txt.xz")
    add("--rows", help=f"only these, by commas: {','.join(GROUPS)}")
    add("--shards", nargs="+", default=[], help="tars to hear instead of the test splits")
    add(
        "--only",
        type=Path,
        help="file with names of clips, or a training run's run.json: its dev clips",
    )
    add("--peers", default="moonshine,vosk,whisper", help=f"heard beside, by commas, of {', '.join(PEERS)}")
    add("--limit", type=int, help="at most so many clips of a corpus")
    add("--asr-model", help="name or directory of the hearing model")
    add("--tts-model", help="name or directory of the speaking model")
    add("--reference", type=Path, help="directory of the same hearing model in fp32 and f32")
    add("--threads", type=int, help="thread budget of model calls")
    add("--sentences", type=Path, help="what the speaking model says instead of the 500: a file, one a line")
    add("--voice", help="who says the sentences (the voice of the recordings, if the model has it)")
    add("--spoken", type=Path, help="folder for the sentences that the speaking model says, as WAV files")
    add("--beside", type=Path, help="folder of another's WAV files of them, named 000….wav in their order")
    add("--json", type=Path, help="file for all rows with the texts and figures behind them")
    return parser


if __name__ == "__main__":
    sys.exit(main())
