"""Sentences of other people's files, as found: plain text, Markdown, dialogues, treebanks, WordNet's own examples."""

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from training.speech.slots import vocabulary

_TEXT_KEYS = frozenset(("text", "utterance", "sentence"))
_END = re.compile(r"(?<=[a-z0-9)]{2}[.?!]) (?=[A-Z])")
_APART = re.compile(r" (?=n't\b|'(?:s|re|ve|ll|m|d)\b)")
_MARK = re.compile(r" (?=[.,?!;:%)]|'s\b)")


def sentences(path: Path) -> Iterator[str]:
    """What a file, or every file of a folder, holds; its kind is told by its name.

    .txt (.xz): a line is a sentence or some. .md: paragraphs of prose. .json: every value of "text", "utterance" or
    "sentence". .csv: the first column. .conllu: "# text". .tsv of WikiSplit: the simple ones. data.noun …: WordNet.
    """
    if path.is_dir():
        for below in sorted(p for p in path.rglob("*") if p.is_file()):
            yield from sentences(below)
        return
    if path.suffix == ".xz":
        text = lzma.open(path, "rt", encoding="utf-8").read()
    else:
        text = path.read_text(encoding="utf-8", errors="replace")
    if path.name.startswith("data."):
        yield from _wordnet(text, path.suffix[1:])
    elif path.suffix == ".json":
        for found in _json(json.loads(text)):
            yield from split(found)
    elif path.suffix == ".conllu":
        yield from (line[9:] for line in text.splitlines() if line.startswith("# text = "))
    elif path.suffix == ".csv":
        for line in text.splitlines()[1:]:
            yield from split(line.rpartition(",")[0].strip('"').replace('""', '"'))
    elif path.suffix == ".md":
        yield from _markdown(text)
    elif path.suffix == ".tsv":
        for line in text.splitlines():
            yield from (_untokenised(part) for part in line.split("\t")[-1].split("<::::>"))
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


def _untokenised(text: str) -> str:
    text = re.sub(r"\s*''\s*|\s*``\s*", " ", text)
    return _MARK.sub("", _APART.sub("", text)).replace(" - ", "-").replace("( ", "(").replace("$ ", "$").strip()


def _wordnet(text: str, kind: str) -> Iterator[str]:
    """Its examples, and its definitions of frequent words as sentences."""
    known = frozenset(vocabulary())
    for line in text.splitlines():
        if line.startswith(" ") or "|" not in line:
            continue
        head, _, gloss = line.partition("|")
        word = head.split()[4].replace("_", " ").split("(")[0]
        definition, *examples = gloss.strip().split('; "')
        for example in examples:
            found = example.split('"')[0]
            if len(found.split()) > 2:
                yield found
        definition = re.sub(r"\([^)]*\) ?", "", definition.split(";")[0]).strip()
        if word in known and 3 <= len(definition.split()) <= 16 and '"' not in definition:
            if kind == "noun" and re.match(r"(a|an|the|any|one|someone|something) ", definition):
                yield f"{'An' if word[0] in 'aeiou' else 'A'} {word} is {definition}."
            elif kind == "verb":
                yield f"To {word} means to {definition}."
            elif kind == "adj":
                yield f"{word} means {definition}."
