"""A line of spoken words and marks → its sounds, as the model reads them: the form that it is trained on and given."""

import re
from collections.abc import Mapping
from typing import Final

from codec.sounds.reader import Reader
from codec.text.characters import weightiest

MARKS: Final = ".,?!;:—…"
"""Marks that a line may hold."""
_TOKEN: Final = re.compile(rf"[{MARKS}]+|[^\s{MARKS}]+")
_SPELLINGS: Final = ((re.compile(r"\.{3,}"), "…"), (re.compile(r"--+|–|―"), "—"))


def line(text: str, reader: Reader, own: Mapping[str, str] | None = None) -> str:
    """Sounds of ``text``, in which numbers stand as words: a space before each word, a mark right after its word.

    ``"We read, then."`` → " wi ɹˈid, ðˈɛn.". "" where there is nothing to read. What it gives is a function of the text
    alone; a word is read as in the runtime, where words before a mark that ends a sentence are not looked at.
    """
    for pattern, written in _SPELLINGS:
        text = pattern.sub(written, text)
    tokens = [m[0] for m in _TOKEN.finditer(text)]
    said, before, marks = "", list[str](), ""
    for place, token in enumerate(tokens):
        if token[0] in MARKS:
            marks += token
            continue
        following = tokens[place + 1] if place + 1 < len(tokens) else ""
        attached = following[:1] in MARKS and following != "" and f"{token}{following}" in text
        sounds = reader.read(token, [] if marks else before, marked=attached, own=own)
        if not sounds:
            continue
        if said:
            said += weightiest(marks)
        said += f" {sounds}"
        before, marks = [*([] if marks else before), token][-2:], ""
    return said + weightiest(marks) if said else ""
