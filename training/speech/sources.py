"""Sentences of other people's files, as found: plain text, Markdown, dialogues."""

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TEXT_KEYS = frozenset(("text", "utterance", "sentence"))
_END = re.compile(r"(?<=[a-z0-9)]{2}[.?!]) (?=[A-Z])")


def sentences(path: Path) -> Iterator[str]:
    """What a file, or every file of a folder, holds; its kind is told by its name.

    .txt (.xz): a line is a sentence or some. .md: paragraphs of prose. .json: every value of "text", "utterance" or
    "sentence".
    """
    if path.is_dir():
        for below in sorted(p for p in path.rglob("*") if p.is_file()):
            yield from sentences(below)
        return
    if path.suffix == ".xz":
        text = lzma.open(path, "rt", encoding="utf-8").read()
    else:
        text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".json":
        for found in _json(json.loads(text)):
            yield from split(found)
    elif path.suffix == ".md":
        yield from _markdown(text)
    else:
        for line in text.splitlines():
            yield from split(line)


def split(text: str) -> list[str]:
    """The sentences of a paragraph; short ones stay with the one before, so that some lines hold two."""
    parts: list[str] = []
    for part in _END.split(text):
        if parts and len(parts[-1].split()) < 4:
            parts[-1] += " " + part
        else:
            parts.append(part)
    return parts


def _json(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key in _TEXT_KEYS and isinstance(value, str):
                yield value
            else:
                yield from _json(value)
    elif isinstance(node, list):
        for value in node:
            yield from _json(value)


def _markdown(text: str) -> Iterator[str]:
    text = re.sub(r"\A---.*?^---|```.*?```|<[^>]+>|\{[%{].*?[%}]\}", "", text, flags=re.S | re.M)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for paragraph in re.split(r"\n\s*\n", text):
        if re.match(r"[A-Z][a-z' ]", paragraph):
            yield from split(" ".join(paragraph.replace("*", "").split()))
