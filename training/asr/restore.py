"""Case and punctuation for transcripts that lack them, out of what a teacher wrote of the same sound.

Contract: `restore` keeps every word of the reference, in its order; the teacher only lends capitals, and the marks
that stand behind a word. `cased` says whether a text needs it.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

from training.transcript import transcript, written

_MARKS = ".,?!"
_ALWAYS = {"i": "I", "i'm": "I'm", "i'll": "I'll", "i've": "I've", "i'd": "I'd"}


def cased(text: str) -> bool:
    """Whether `text` is written as people write: both cases, and a mark at its end."""
    letters = [c for c in text if c.isalpha()]
    upper = sum(c.isupper() for c in letters)
    return 0 < upper <= max(0.3 * len(letters), 1) and text.rstrip("\"' ")[-1:] in tuple(".?!")


def restore(reference: str, taught: str) -> str:
    """Words of `reference` (any case, no punctuation) as the teacher's `taught` writes them where both agree."""
    words = transcript(reference).split()
    model: list[tuple[str, str]] = []
    for word in written(taught).split():
        model += [(bare, part) for part in word.split("-") if (bare := transcript(part))]
    out = [_ALWAYS.get(w, w if len(w) > 1 or w == "a" else w.upper()) for w in words]
    matcher = SequenceMatcher(None, [b for b, _ in model], words, autojunk=False)
    for block in matcher.get_matching_blocks():
        for k in range(block.size):
            word = model[block.a + k][1]
            if len(words[block.b + k]) > 1 or word[:1].isupper():
                out[block.b + k] = word
    return sentence(out)


def sentence(words: Sequence[str]) -> str:
    """Joined, with a capital at the beginning of each sentence and a mark at the end."""
    out = list(words)
    for i, word in enumerate(out):
        if i == 0 or out[i - 1][-1] in ".?!":
            out[i] = word[:1].upper() + word[1:]
    if out and out[-1][-1] not in _MARKS:
        out[-1] += "."
    elif out and out[-1][-1] == ",":
        out[-1] = out[-1][:-1] + "."
    return " ".join(out)
