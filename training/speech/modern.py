"""Sentences of today for `text --modern`, out of clones of public repositories that lie in one folder.

Contract: each sentence is a line and occurs once, in the order of the sources. A repository that is missing is left
out.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_STRANGE: Final = re.compile(r"[\[\]{}<>_*]|http")
_APART: Final = re.compile(r"^'+ | ?''|`` ?| (?=[.,?!;:)'])|(?<=\() | (?=n't)")
# The share of Schema-Guided Dialogue that is taken, because its patterns repeat.
_KEPT: Final = 0.28


def _wiki_split(clone: Path) -> Iterator[str]:
    """WikiSplit (CC BY-SA 4.0) has the short sentences that a long one of Wikipedia became."""
    for name in ("tune", "test", "validation"):
        for line in (clone / f"{name}.tsv").read_text(encoding="utf-8").splitlines():
            yield from (_APART.sub("", " ".join(part.split())) for part in line.split("\t")[1].split("<::::>"))


def _schema_guided(clone: Path) -> Iterator[str]:
    """Schema-Guided Dialogue (CC BY-SA 4.0) has what people and assistants say."""
    chance = random.Random(3)
    for file in sorted((clone / "train").glob("dialogues_*.json")):
        turns = [turn["utterance"] for dialogue in json.loads(file.read_bytes()) for turn in dialogue["turns"]]
        yield from (text for text in turns if chance.random() < _KEPT)


def _taskmaster(clone: Path) -> Iterator[str]:
    """Taskmaster (CC BY 4.0) has the same for errands."""
    for file in sorted(clone.glob("TM-*/data/*.json")):
        objects: list[dict[str, Any]] = []
        json.loads(file.read_bytes(), object_hook=objects.append)
        yield from (one["text"] for one in objects if "speaker" in one and isinstance(one.get("text"), str))


def _trivia(clone: Path) -> Iterator[str]:
    """OpenTriviaQA (CC BY-SA 4.0) has questions."""
    for file in sorted((clone / "categories").iterdir()):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from (line.removeprefix("#Q ") for line in lines if line.startswith("#Q "))


SOURCES: Final[Mapping[str, Callable[[Path], Iterator[str]]]] = {
    "wiki-split": _wiki_split,
    "dstc8-schema-guided-dialogue": _schema_guided,
    "Taskmaster": _taskmaster,
    "OpenTriviaQA": _trivia,
}
"""The folder of a clone, and what reads its sentences."""


def modern(clones: Path, /, *, out: Path) -> None:
    """Write sentences of today out of public repositories. clones: folder with clones of those in SOURCES, any of
    them."""
    lines: dict[str, None] = {}
    for name, read in SOURCES.items():
        if (clones / name).is_dir():
            texts = (" ".join(text.split()) for text in read(clones / name))
            found = dict.fromkeys(text for text in texts if text and not _STRANGE.search(text))
            print(f"{name}: {len(found)} sentences")
            lines |= found
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
