"""The one style of what is written, and how found sentences are brought into it or refused.

Contract: `styled(text)` gives a line that a recogniser can guess from sound alone, or None. A line is cased, in
American spelling, in ASCII, with `. , ? !` and with apostrophes and hyphens inside words, and with numbers as in
`training.speech.numerals`. It has no quotation marks, colons, semicolons or dashes, which nobody hears.
"""

import re
from pathlib import Path
from typing import Final

from codec.text import acronyms
from training.speech.numerals import numerals
from training.transcript import folded

_SPELLINGS: Final = tuple(
    (re.compile(f"({before}){british}", re.I), r"\1" + american)
    for before, british, american in (
        line.split("\t") for line in (Path(__file__).parent / "data/spellings.txt").read_text().splitlines()[1:]
    )
)
_ACRONYMS = frozenset("NASA NATO AIDS UNESCO OPEC FIFA UEFA NASCAR UNICEF COVID LEGO IKEA PIN SIM".split())
_REFUSED = re.compile(
    r"\b(nigg|kike|fagg|cunt|whore|slut|raping|raped|rapist)|shit|fuck",
    re.I,
    # No voice of ours says these.
)
_VOWEL = re.compile("[aeiouyAEIOUY]")
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*'?")
_ALLOWED = re.compile(r"[A-Za-z0-9$£€][A-Za-z0-9 .,?!'$£€%:-]*(?<=[.?!])")
_RANGE = re.compile("\\d[-\u2013/]\\d\\d?(?!\\d)")
_QUOTES = re.compile(
    "[\"\u201c\u201d]|(?<!\\w)'(?=\\w)(?!em\\b|til\\b|cause\\b)|(?<=[.,!?])'(?!\\w)"
)  # These are quotation marks and no apostrophes.
_BREAKS = re.compile("\\s*(?:;|(?<!\\d):(?= )|\\s[-\u2013\u2014]+(?=\\s)|--+|[\u2014\u2013])\\s*")
_BAD_MARKS = re.compile(r"[?!.,]{2}|[A-Z]{6}|\d-(?!\d{3})|(?<!\d{3})-\d|\d/| [.,?!]|''|--|- | -|:\d\d\.\d")
_BAD_PLACES = re.compile(
    r"(?<!Mr|Ms|Dr|St|Jr|.m)(?<!Mrs)[.?!] [a-z]"  # A sentence begins small here.
    r"|\b(?:Rev|Prof|Gen|Col|Capt|Sgt|Lt|Gov|Sen|Hon|Inc|Ltd|Corp|Co|Mt|Ft|etc|approx|dept|ca|[Vv]s)\."
    r"|\d\d:\d\d:|\d{3}:|:(?!\d\d\b)|(?<!\d):"  # This is no clock time.
    r"|\d[A-Za-z]{3}|[A-Za-z]\d|[$£€](?!\d)|%[A-Za-z]|\d{3},\d(?!\d\d)|\d\.\d{3}|#| '(?!\w)"
    r"|\.\S*[A-Za-z]\S*\.[A-Za-z]|(?<![ap])\.(?=[A-Za-z])(?!m\.)|[,?!](?=[A-Za-z])"
)
_SHORT_TITLES = {"Mister": "Mr.", "Missus": "Mrs.", "Miz": "Ms.", "Doctor": "Dr.", "Saint": "St."}
_TITLE = re.compile(rf"\b({'|'.join(_SHORT_TITLES)})(?= [A-Z][a-z])")
_SMALL_NAMES = re.compile(
    r"\b(?:i(?='|\b)|(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|(?:january|february|april|june|july|august|september|"
    r"october|november|december)\b|march(?= \d))"
)
_ENDS_OPEN = re.compile(r"\b(Mr|Mrs|Ms|Dr|St)\.$")


def _marks(text: str) -> str:
    """Give ASCII without quotation marks, with breaks of all kinds as commas, a capital first and a mark last."""
    text = _QUOTES.sub("", folded(text.replace("\u2019", "'").replace("\u2018", "'")))
    text = re.sub(r"\.\.\.+$", ".", _BREAKS.sub(", ", text)).replace("&", "and").replace("...", ",").replace(" %", "%")
    text = " ".join(text.split()).strip(" ,-")
    text = re.sub(r"([.!?]),+ (?=[a-z])", r"\1 ", re.sub(r"([,.!?]),+", r"\1", text))
    if text and (text[-1].isalnum() or text[-1] in "'%"):
        text += "."
    return text[:1].upper() + text[1:]


def styled(text: str) -> str | None:
    """Give `text` in the style, or None for odd marks, addresses, headings in capitals, dialect with lost letters, and
    ranges."""
    if _RANGE.search(text):
        return None
    text = _marks(text)
    if not _ALLOWED.fullmatch(text) or _BAD_MARKS.search(text):
        return None
    for pattern, american in _SPELLINGS:
        text = pattern.sub(american, text)
    text = re.sub(r"(?<=[a-z,] )Okay", "okay", text)
    text = _SMALL_NAMES.sub(lambda m: m[0].capitalize(), text)
    text = _TITLE.sub(lambda m: _SHORT_TITLES[m[1]], text)
    text = re.sub(r"\b(Mr|Mrs|Ms|Dr)(?= [A-Z])", r"\1.", text)
    text = text.replace("U.S.A.", "USA").replace("U.S.", "US").replace("U.K.", "UK").replace(" tv ", " TV ")
    text = numerals(text)
    if text[-1] not in ".?!":
        text += "."
    return text[0].upper() + text[1:] if _well(text) else None


def _well(text: str) -> bool:
    """Whether every mark stands where one can, and every word is one that can be read."""
    if _BAD_PLACES.search(text) or _REFUSED.search(text) or _ENDS_OPEN.search(text):
        return False
    words = _WORD.findall(re.sub(r"\b[ap]\.m\.|(?<=0)s\b", "", text))
    if not words and not any(c.isdigit() for c in text):
        return False
    if not all(_readable(word, text) for word in words):
        return False
    words = [word for word in words if len(word) > 1]
    capitals = sum(word[0].isupper() for word in words[1:])
    return len(words) < 5 or capitals <= 0.6 * len(words)


def _readable(word: str, text: str) -> bool:
    if len(word) == 1:
        return word in "AIaO" or bool(re.search(rf"\b[A-Z] {word}\b|\b{word} [A-Z]\b|(lan|amin|tter) {word}\b", text))
    if word.isupper() and word not in _ACRONYMS and acronyms.letters(word) == word:
        return False
    return not (word.endswith("'") and not word.endswith("s'")) and not (len(word) > 3 and not _VOWEL.search(word))
