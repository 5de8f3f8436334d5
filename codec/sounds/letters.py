"""Letters by their names, and words in capitals that are read by them."""

from typing import Final

from codec.sounds.symbols import PRIMARY, SECONDARY

NAMES: Final = {
    "a": "ˈA", "b": "bˈi", "c": "sˈi", "d": "dˈi", "e": "ˈi", "f": "ˈɛf", "g": "ʤˈi", "h": "ˈAʧ", "i": "ˈI",
    "j": "ʤˈA", "k": "kˈA", "l": "ˈɛl", "m": "ˈɛm", "n": "ˈɛn", "o": "ˈO", "p": "pˈi", "q": "kjˈu", "r": "ˈɑɹ",
    "s": "ˈɛs", "t": "tˈi", "u": "jˈu", "v": "vˈi", "w": "dˈʌbᵊlju", "x": "ˈɛks", "y": "wˈI", "z": "zˈi",
}  # fmt: skip
SPELLED: Final = frozenset("ai aka eta id ip it la led ma os pa rip un ups us who".split())
"""Words in small letters that are read by their letters when they stand in capitals, though they are words too."""
_MOST_TOGETHER: Final = 5
"""How many letters are said as one word at most; longer rows fall into words of three and four."""


def named(letters: str) -> str:
    """The names of ``letters`` (a to z), glued: only the last is strong. ``"bbc"`` → bˌibˌisˈi."""
    words: list[str] = []
    while letters:
        size = len(letters) if len(letters) <= _MOST_TOGETHER else 4 if len(letters) % 4 in (0, 3) else 3
        row, letters = letters[:size], letters[size:]
        *weak, last = (NAMES[letter] for letter in row.lower())
        words.append("".join(name.replace(PRIMARY, SECONDARY) for name in weak) + last)
    return " ".join(words)
