"""Transcripts: text as the hearing model writes it, and the bare words that are compared.

Contract: `written` text has capitals, digits and marks. A `transcript` is lower-case words of a-z with inner
apostrophes and single spaces, without punctuation. It is "" for a text with digits, because how they were said would
have to be guessed.
"""

import lzma
import re
import unicodedata
from pathlib import Path

_PUNCTUATION = str.maketrans({"\u2019": "'", "\u2018": "'", "`": "'", "\u2014": " ", "\u2013": " ", "-": " "})
_OTHER = re.compile(r"[^a-z' ]+")
_DIGIT = re.compile(r"\d")


def folded(text: str) -> str:
    """Give `text` without accents, with every compatible character as a plain one."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def transcript(text: str) -> str:
    """Give the words of `text` in the models' alphabet; "" where digits would have to be guessed."""
    if _DIGIT.search(text):
        return ""
    plain = folded(text.translate(_PUNCTUATION).lower()).replace("&", " and ")
    return " ".join(w for w in (w.strip("'") for w in _OTHER.sub(" ", plain).split()) if w)


def plain(text: str) -> str:
    """Give the lower-cased words and digits of a text, by which two texts are compared."""
    return " ".join(re.findall(r"[a-z0-9]+(?:'[a-z]+)?", text.lower().replace("\u2019", "'")))


_WRITTEN = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "`": "'", "\u2026": ".", ";": ",", "\u2014": ", ", "\u2013": ", "}
    | dict.fromkeys('\u201c\u201d"()[]_*', " ")
)
_UNWRITTEN = re.compile(r"[^A-Za-z0-9.,?!'%$£€:&+/@ -]+")
_LONE = re.compile(r"(?:(?<=\s)|^)[^A-Za-z0-9$£€&]+(?=\s|$)")
_QUOTE = re.compile(r"(?:(?<=\s)|^)'+(?=\w)|(?<=[.,?!\w])'+(?=[.,?!:]*(?:\s|$))")
_REPEATED = re.compile(r"([.,?!:])(?:\s*[.,?!:])+")


def written(text: str) -> str:
    """Give `text` as the models write it: cased, with the marks . , ? ! and digits, without quotes and brackets. Two
    marks never follow one another, and a text that is written so already stays as it is."""
    plain = folded(text.translate(_WRITTEN))
    # The loop is needed because dropping a sign can leave one mark too many.
    while (tidied := _tidied(plain)) != plain:
        plain = tidied
    return plain


def _tidied(text: str) -> str:
    plain = _UNWRITTEN.sub(" ", text).replace("--", ", ")
    plain = _QUOTE.sub("", plain)
    plain = re.sub(r"\s+([.,?!:]+)(?=\s|$)", r"\1", plain)
    plain = re.sub(r"([,:])\s*([.?!])", r"\2", _REPEATED.sub(lambda m: _strongest(m[0]), plain))
    plain = re.sub(r"[:]+(?=\s|$)", ",", _LONE.sub(" ", plain))
    return " ".join(plain.split())


def _strongest(marks: str) -> str:
    """Give one mark in place of several: the one that says most."""
    return next(m for m in "?!.,:" if m in marks)


def lines_of(path: Path) -> list[str]:
    """Give the lines of a text file, plain or .xz."""
    return (lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text()).splitlines()
