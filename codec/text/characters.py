"""What a model that knows few characters is given of a text, and what had to be left out."""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

from codec.text.folding import folded, latin
from engines.manifest import TextRules

MOST_UNREAD: Final = 40
"""How many characters a warning names at most: it is read by people."""
_ENDS: Final = ".?!…"
_PLAIN_MARKS: Final = str.maketrans("。！？；，、：…", ".!?;,,:.")
_APOSTROPHES: Final = str.maketrans("’‘ʼ", "'''")
_OUTER_APOSTROPHES: Final = re.compile(r"(?<![^\W_])'|'(?![^\W_])")
_OUTER_HYPHENS: Final = re.compile(r"(?<![^\W_])-|-(?![^\W_])")
_SPELLED_A: Final = re.compile(r"\ba(?= [b-z]\b)")
"""The letter of what is spelled ("a m"): a small one is an article where it stands alone."""
_DOTS: Final = re.compile(r"\.{3,}")


def weightiest(marks: str) -> str:
    """The one of several marks in a row that counts: the first that ends a sentence, else the first."""
    return next((c for c in marks if c in _ENDS), marks[:1])


class Characters:
    """The characters of one session's text: what the model is given of them, and which were left out."""

    def __init__(self, rules: TextRules) -> None:
        self._rules = rules
        self._unread: dict[str, None] = {}
        alphabet, known = rules.alphabet or "", re.escape(rules.marks)
        self._small = not any(c.isupper() for c in alphabet)
        self._marks = {ord(c): c for c in rules.marks}
        row = rf"[{known}](?:[{known} ]*[{known}])?" if known else "(?!)"
        self._row = re.compile(row)
        self._spaced = re.compile(rf" +([{known}])" if known else "(?!)")
        self._glued = re.compile(rf"([{known}])(?=[^\s{known}])" if known else "(?!)")
        self._one: Callable[[str], str] = weightiest if rules.sounds is not None else lambda marks: marks[-1]

    def kept(self, said: str) -> str:
        """``said`` in the model's letters and marks; as it is but for emoji where the model knows any.

        For a model that reads sounds every Latin letter stays, for it is looked up as it is written. Apostrophes are
        letters inside a word only, hyphens too; of several marks one counts.
        """
        plain = (
            said if said.isascii() else "".join(c for c in said if unicodedata.category(c) not in ("So", "Co", "Cn"))
        )
        alphabet, marks = self._rules.alphabet, self._rules.marks
        if alphabet is None:
            return plain
        if self._rules.sounds is not None:
            plain = _DOTS.sub("…", plain.translate(_APOSTROPHES)).translate(_PLAIN_MARKS | self._marks)
            plain = "".join(c if c in marks or c in "'-" or latin(c) else self._left_out(c) for c in plain)
            plain = _SPELLED_A.sub("A", _OUTER_HYPHENS.sub(" ", plain))
        else:
            plain = folded(plain.casefold() if self._small else plain).translate(_PLAIN_MARKS)
            plain = "".join(c if c in alphabet or c in marks else self._left_out(c) for c in plain)
        single = self._row.sub(lambda m: self._one(m[0]), _OUTER_APOSTROPHES.sub(" ", plain))
        return self._glued.sub(r"\1 ", self._spaced.sub(r"\1", single))

    def _left_out(self, c: str) -> str:
        """What stands in place of a character that the model does not know; letters, digits and signs are noted."""
        if unicodedata.combining(c):
            return ""
        if (c.isalnum() or unicodedata.category(c) in ("Sm", "Sc")) and len(self._unread) < MOST_UNREAD:
            self._unread[c] = None
        return " "

    def unread(self) -> str:
        """Letters, digits and signs that were left out since the last call, each once."""
        found, self._unread = "".join(self._unread), {}
        return found
