"""A user's own pronunciations: words with their sounds in IPA or respelled ("Houston hyoo-STUN")."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from codec.sounds.guess import stressed
from codec.sounds.respelling import Unreadable, ipa, respelled
from codec.text.folding import folded
from engines.sessions import OptionError

FIELD: Final = "lexicon"
"""The option's name in messages."""
MOST_WORDS: Final = 10_000
"""How many words a file may have; a request may have ``MOST_ASKED``."""
MOST_ASKED: Final = 256
LONGEST: Final = 64
"""How many letters a word may have."""
MOST_SYMBOLS: Final = 200
"""How many characters a pronunciation may have."""
MOST_BYTES: Final = 1 << 20
"""How many bytes a file may have."""

_WORD: Final = re.compile(r"[^\W\d_](?:[^\W_]|['’-])*")
_IPA: Final = re.compile(r"[^\x00-\x7f]")


class Lexicon:
    """Immutable. ``sounds``: of every word, in small plain letters, as codec/sounds/symbols.py writes them."""

    def __init__(self, sounds: Mapping[str, str]) -> None:
        self.sounds = dict(sounds)

    def __or__(self, other: "Lexicon") -> "Lexicon":
        """Both, ``other`` over this one."""
        return Lexicon(self.sounds | other.sounds)

    @classmethod
    def of(cls, words: Mapping[str, object]) -> "Lexicon":
        """The lexicon that a request brings as ``{word: pronunciation}``.

        Raises:
            OptionError: too many, or one that cannot be read; the message names it.
        """
        if len(words) > MOST_ASKED:
            raise OptionError(FIELD, f"{len(words)} words, a request may bring {MOST_ASKED}")
        found: dict[str, str] = {}
        for word, pronunciation in words.items():
            try:
                if not isinstance(pronunciation, str):
                    raise Unreadable("its pronunciation must be a string")
                found[_key(word)] = _sounds(pronunciation)
            except Unreadable as error:
                raise OptionError(FIELD, f"{word[:LONGEST]!r}: {error}") from None
        return cls(found)

    @classmethod
    def load(cls, path: Path) -> "Lexicon":
        """The lexicon in a file of UTF-8. Each line has a word, white space and its pronunciation; ``#`` begins a
        comment.

        Raises:
            OptionError: a line cannot be read; the message names the file, the line and the symbol.
        """
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise OptionError(FIELD, f"{path} has more than {MOST_BYTES} bytes")
            text = data.decode("utf-8-sig")
        except OSError as error:
            raise OptionError(FIELD, f"{path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise OptionError(FIELD, f"{path} is no UTF-8 text: {error}") from error
        found: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            word, *rest = line.split("#", 1)[0].split(None, 1) or [""]
            if not word:
                continue
            try:
                if not rest:
                    raise Unreadable("a pronunciation must follow the word, as in: Houston hyoo-STUN")
                found[_key(word)] = _sounds(rest[0])
            except Unreadable as error:
                raise OptionError(FIELD, f"{path}, line {number}, {word[:LONGEST]!r}: {error}") from None
        if len(found) > MOST_WORDS:
            raise OptionError(FIELD, f"{path} has {len(found)} words, the limit is {MOST_WORDS}")
        return cls(found)


def _key(word: str) -> str:
    """A word as it is looked up."""
    if len(word) > LONGEST or not _WORD.fullmatch(word):
        raise Unreadable(f"a word is up to {LONGEST} letters, apostrophes and hyphens, a letter first")
    return folded(word).lower()


def _sounds(pronunciation: str) -> str:
    """The sounds of a pronunciation: IPA where it has a symbol that is not ASCII or stands in /…/ or […]."""
    text = pronunciation.strip()
    if len(text) > MOST_SYMBOLS:
        raise Unreadable(f"the pronunciation has {len(text)} characters, the limit is {MOST_SYMBOLS}")
    bracketed = len(text) > 1 and text[0] + text[-1] in ("//", "[]")
    bare = text[1:-1] if bracketed else text
    words = [(ipa if bracketed or _IPA.search(text) else respelled)(part) for part in bare.split()]
    if not words:
        raise Unreadable("the pronunciation is empty")
    return " ".join(map(stressed, words))


def takes_none(model: str) -> OptionError:
    """What is said of a lexicon for a model that reads letters."""
    return OptionError(FIELD, f"{model} reads letters, so it takes no pronunciations: models that read sounds do")
