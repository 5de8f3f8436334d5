"""Text as the small speaking model reads it.

Contract: `speakable` gives lower-case words with inner apostrophes and the marks , . ? ! ; : and ends with . ? or !.
It begins with a space, so that a text's tokens are the tokens of its words, one after another: a stream can be
encoded word by word.
"""

import re
import unicodedata

ALPHABET, MARKS, ENDS = "abcdefghijklmnopqrstuvwxyz'", ",.?!;:", ".?!"
_SIGNS = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "`": "'", "\u2026": ".", "_": " ", '"': " ", "\u201c": " ", "\u201d": " "}
)
_WORDS = {"&": " and ", "%": " percent ", "+": " plus ", "=": " equals ", "@": " at "}
_TITLES = {"Mr": "Mister", "Mrs": "Missus", "Dr": "Doctor", "St": "Saint"}
_TITLE = re.compile(r"\b(Mr|Mrs|Dr|St)\b\.?")
_ETC = re.compile(r"\betc\b\.?", re.IGNORECASE)
_DASH = re.compile(r"\s*(?:\u2014|\u2013|--+)\s*|\s-\s")
_OTHER = re.compile(rf"[^a-z' {re.escape(MARKS)}]+")
_QUOTE = re.compile(r"(?<![a-z])'|'(?![a-z])")
_SPELLED = re.compile(r"\b[B-DF-HJ-NP-TV-XZ]{2,5}\b")  # no vowel: read by its letters, as at run time


def speakable(text: str) -> str:
    """`text` in the model's characters; "" where digits would have to be guessed or no word is left."""
    if any(c.isdigit() for c in text):
        return ""
    expanded = _ETC.sub("et cetera", _TITLE.sub(lambda found: _TITLES[found[1]], text))
    expanded = _SPELLED.sub(lambda found: " ".join(found[0]), expanded)
    folded = unicodedata.normalize("NFKD", expanded.translate(_SIGNS).lower())
    plain = _DASH.sub(", ", "".join(c for c in folded if not unicodedata.combining(c)))
    for sign, word in _WORDS.items():
        plain = plain.replace(sign, word)
    plain = _QUOTE.sub(" ", _OTHER.sub(" ", plain.replace("-", " ")))
    plain = re.sub(rf"\s+([{MARKS}])", r"\1", plain)
    plain = re.sub(rf"[{MARKS}][{MARKS} ]*([{MARKS}])", r"\1", plain)
    plain = re.sub(rf"([{MARKS}])(?=[a-z'])", r"\1 ", plain)
    plain = " ".join(plain.split()).strip(" ,;:")
    if not re.search("[a-z]", plain):
        return ""
    return " " + plain.lstrip(MARKS + " ") + ("" if plain[-1] in ENDS else ".")
