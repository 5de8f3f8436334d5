"""The symbols that sounds are written in: misaki's American set, which is Kokoro-82M's.

A symbol is a sound, and some vowels are two (``A`` as in day, ``I`` eye, ``O`` go, ``W`` now, ``Y`` boy); ``ʤ`` and
``ʧ`` begin and end "judge" and "church", ``T`` is the tapped t of "water", ``ᵊ`` and ``ᵻ`` are the weak vowels of
"bottle" and "roses". A mark of stress stands before the vowel of its syllable. Source: misaki 0.9 (Apache-2.0), with
``T`` for its ɾ and ``t`` for its ʔ, as that writes them for Kokoro.
"""

from typing import Final

VOWELS: Final = frozenset("AIOWYiuæɑəɛɜɪɔʊʌᵊᵻɐ")
CONSONANTS: Final = frozenset("bdfhjklmnpstvwzŋðɡɹʃʒʤʧθT")
PRIMARY: Final = "ˈ"
SECONDARY: Final = "ˌ"
STRESSES: Final = frozenset((PRIMARY, SECONDARY))
SYMBOLS: Final = VOWELS | CONSONANTS | STRESSES
"""All symbols that a word is written with. A text has white space and the model's marks besides."""

_TAPPING: Final = VOWELS - {"ᵊ", "ᵻ", "ɐ"} | {"ɹ"}
"""The sounds after which a t before a weak vowel is tapped ("writer", "party")."""


def weaker(sounds: str) -> str:
    """A word's sounds as the second part of a compound has them: its strong syllable is a half strong one."""
    return sounds.replace(SECONDARY, "").replace(PRIMARY, SECONDARY)


def tapped(sounds: str) -> str:
    """A word's sounds before an ending that begins with a weak vowel."""
    return sounds[:-1] + "T" if sounds[-1:] == "t" and sounds[-2:-1] in _TAPPING else sounds
