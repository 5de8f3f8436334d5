"""Text as the small speaking model reads it, and the sentences that synthetic speech is made of.

Contract: `speakable` gives lower-case words with inner apostrophes and the marks , . ? ! ; : and ends with . ? or !.
It begins with a space, so that a text's tokens are the tokens of its words, one after another: a stream can be
encoded word by word.
"""

import lzma
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.asr.sentences import expand_titles, invented_name, templated

ALPHABET, MARKS, ENDS = "abcdefghijklmnopqrstuvwxyz'", ",.?!;:", ".?!"
_SIGNS = str.maketrans(
    {"\u2019": "'", "\u2018": "'", "`": "'", "\u2026": ".", "_": " ", '"': " ", "\u201c": " ", "\u201d": " "}
)
_WORDS = {"&": " and ", "%": " percent ", "+": " plus ", "=": " equals ", "@": " at "}
_ETC = re.compile(r"\betc\b\.?", re.IGNORECASE)
_DASH = re.compile(r"\s*(?:\u2014|\u2013|--+)\s*|\s-\s")
_OTHER = re.compile(rf"[^a-z' {re.escape(MARKS)}]+")
_QUOTE = re.compile(r"(?<![a-z])'|'(?![a-z])")
_SPELLED = re.compile(r"\b[B-DF-HJ-NP-TV-XZ]{2,5}\b")  # no vowel: read by its letters, as at run time
_QUESTION = re.compile(r"^(?:what|where|why|who|how|when|is|are|do|does|did|can|could|will|would|shall|should)\b")


def speakable(text: str) -> str:
    """`text` in the model's characters; "" where digits would have to be guessed or no word is left."""
    if any(c.isdigit() for c in text):
        return ""
    expanded = _ETC.sub("et cetera", expand_titles(text))
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


def read_spoken(path: Path) -> dict[str, str]:
    """Lines `written<TAB>spoken`, plain or .xz: what is read of a text that holds numbers."""
    text = lzma.open(path, "rt").read() if path.suffix == ".xz" else path.read_text()
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


def _asked(text: str) -> str:
    return text + "?" if _QUESTION.match(text) and text[-1] not in MARKS else text


def sentences(fiction: Sequence[str], seed: int, shortest: int = 3, longest: int = 190) -> Iterator[str]:
    """Endless speakable sentences of `shortest`..`longest` characters: fiction in random order, templates, invented
    names, lists of single words (letter-to-sound), two sentences in a row.
    """
    rng = random.Random(seed)
    words = sorted(
        {w.strip(MARKS) for line in fiction[:20000] for w in line.lower().split() if w.strip(MARKS).isalpha()}
    )
    while True:
        draw = rng.random()
        text = expand_titles(rng.choice(fiction))
        if draw < 0.18:
            text = _asked(templated(rng))
        elif draw < 0.23:
            some = rng.sample(words, rng.randint(1, 6))
            text = (", " if rng.random() < 0.4 else " ").join(some)
        elif draw < 0.26:
            text = f"{text} {invented_name(rng)}."
        elif draw < 0.32:
            text = f"{text} {expand_titles(rng.choice(fiction))}"
        elif draw < 0.36:
            text = " ".join(text.split()[: rng.randint(1, 4)])
        said = speakable(text)
        if shortest <= len(said) <= longest:
            yield said
