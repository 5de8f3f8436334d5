"""Texts of clips by a teacher, and their place in training: {"file", "text"} a line.

A clip whose index has words keeps them; the teacher lends case and punctuation where they lack (restore.py). A clip
without words gets the teacher's text if the teacher is sure of it and nothing in it is a guess (digits).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

from training.asr.restore import cased, restore
from training.shards import Clip, read_shards
from training.transcript import transcript, written

_SURE = -0.45  # mean log-probability of a text that stands for itself
_DIGIT = re.compile(r"\d")


def decided(clip: Clip, taught: str, sure: float, never: frozenset[str]) -> str | None:
    """The text of a clip, or None where none can be trusted."""
    if clip.text:
        words, model = transcript(clip.text).split(), transcript(re.sub(r"\d", "", taught)).split()
        if len(words) > 3 and SequenceMatcher(None, words, model, autojunk=False).ratio() < 0.3:
            return None
        return clip.text if cased(clip.text) else restore(clip.text, taught)
    plain = transcript(taught)
    if sure < _SURE or _DIGIT.search(taught) or not plain or plain in never:
        return None
    return written(taught)


Teach = Callable[[Sequence[Clip]], Iterator[tuple[Clip, str, float]]]
"""What a teacher writes of clips, and how sure it is."""


def write_labels(
    teach: Teach, shards: Sequence[Path], never: Sequence[Path], out: Path, share: tuple[int, int], processes: int
) -> None:
    """Label every `share[1]`-th clip from the `share[0]`-th on; clips without a label get the text ""."""
    clips = read_shards(shards, processes)[share[0] :: share[1]]
    rows = [json.loads(line) for path in never for line in path.read_text().splitlines()]
    known = frozenset(transcript(row["text"]) for row in rows)
    kept = 0
    with out.open("w", encoding="utf-8") as file:
        for clip, taught, sure in teach(clips):
            text = decided(clip, taught, sure, known)
            kept += text is not None
            row = {"file": clip.file, "text": text or "", "taught": taught, "sure": round(sure, 3)}
            file.write(json.dumps(row) + "\n")
    print(f"{kept} of {len(clips)} clips have a text")


def relabelled(clips: list[Clip], labels: Path | None) -> list[Clip]:
    """`clips` with the texts of a labels file; those that it gives none, and those without text, are left out."""
    if labels is None:
        return [c for c in clips if c.text]
    rows = map(json.loads, labels.read_text(encoding="utf-8").splitlines())
    texts: dict[str, str] = {row["file"]: row["text"] for row in rows}
    found = [replace(c, text=texts.get(c.file, c.text)) for c in clips]
    return [c for c in found if c.text]
