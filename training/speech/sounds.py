"""Sentences to sounds: the runtime's own reading of text, as the talker learns to read it and as Kokoro says it.

Contract: `Sounds.said(text)` gives the line that the runtime's front end and dictionary make of a written line: a space
before each word, the author's marks behind the words. `Sounds.tokens` gives the same line as numbers of Kokoro's
phonemes, in the American accent or as a British voice says those sounds.
"""

import json
import re
from collections.abc import Set
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Self

from codec.sounds.line import MARKS, line
from codec.sounds.reader import Reader
from codec.sounds.symbols import STRESSES
from codec.text.numbers import digits
from codec.text.stream import spoken_text
from engines.manifest import Pronunciation, TextRules
from training.packages import unpack
from training.tts.text import RULES

VOCABULARY: Final = {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, "—": 9, "…": 10, " ": 16, "A": 24, "I": 25, "O": 31, "Q": 33,
    "T": 36, "W": 39, "Y": 41, "ᵊ": 42, "a": 43, "b": 44, "d": 46, "f": 48, "h": 50, "i": 51, "j": 52, "k": 53,
    "l": 54, "m": 55, "n": 56, "p": 58, "s": 61, "t": 62, "u": 63, "v": 64, "w": 65, "z": 68, "ɑ": 69, "ɐ": 70,
    "ɒ": 71, "æ": 72, "ɔ": 76, "ð": 81, "ʤ": 82, "ə": 83, "ɛ": 86, "ɜ": 87, "ɡ": 92, "ɪ": 102, "ŋ": 112, "θ": 119,
    "ɹ": 123, "ʃ": 131, "ʧ": 133, "ʊ": 135, "ʌ": 138, "ʒ": 147, "ˈ": 156, "ˌ": 157, "ː": 158, "ᵻ": 177,
}  # fmt: skip
"""The numbers that Kokoro-82M v1.0 knows its phonemes by (`vocab` of its config.json), as far as they are used here."""
SPACE: Final = VOCABULARY[" "]
SILENT: Final = frozenset(VOCABULARY[c] for c in f"{MARKS} ˈˌː")
"""Tokens that are no sound of their own: marks, spaces, and the signs of stress and length."""
LEXICON: Final = "misaki-0.9.4-py3-none-any.whl"
"""The wheel whose list of British words, checked by hand, decides between vowels that American sounds do not tell."""
FILES: Final = Pronunciation("dictionary.gz", "neighbours.json", "guesses.npz")
"""The files of a model directory that tell how words sound (training/sounds)."""
_RULES: Final = TextRules(RULES.alphabet, MARKS, RULES.ends, longest=1 << 20, sounds=FILES)
"""The talker's own rules, but for the length of a piece: a line of the script is never cut."""
_CODE: Final = re.compile(r"(?<![\d$£€.,:-])\d{5,}(?![\d,.]\d)")
"""Five digits in a row or more, without commas, are a code, and people say the digits of a code one by one."""
_SPELLED_A: Final = re.compile(r"(?<![\w'-])(?<!\b[A-Z] )A(?= [A-Z](?![\w'-]))")
"""The A that a spelled word begins with. The runtime reads a lone A after a mark as the article."""


@lru_cache(1)
def said(written: str) -> str:
    """The words of a written line as the runtime reads them, numbers in words, with the author's marks; "" where there
    is nothing to read. It begins with a space."""
    return spoken_text(_SPELLED_A.sub("Ay", _CODE.sub(lambda m: digits(m[0]), written)), _RULES, english=True)


class Sounds:
    """The reader of a model directory that has the files of sounds, and the vowels of British voices."""

    def __init__(self, reader: Reader, known: Set[str]) -> None:
        """known: how British words sound, as `british` takes it."""
        self._reader = reader
        self._british = lru_cache(1 << 16)(partial(british, known=known))
        self._line = lru_cache(1)(self._read)

    @classmethod
    def load(cls, model: Path, wheel: Path) -> Self:
        """Of a model directory with a dictionary, such as `models/pocket-tts-en`, and of misaki's wheel (LEXICON).

        Raises:
            ValueError: the wheel is not the pinned one.
        """
        listed = json.loads(unpack(wheel.parent, wheel.name)["misaki/data/gb_gold.json"]).values()
        known = frozenset(entry if isinstance(entry, str) else entry["DEFAULT"] for entry in listed)
        return cls(Reader.load(FILES, model), known)

    def said(self, text: str) -> str:
        """The sounds of a line: "Hello, world." -> " həlˈO, wˈɜɹld."."""
        return self._line(text)

    def _read(self, text: str) -> str:
        return line(said(text), self._reader)

    def tokens(self, text: str, accent: str) -> list[int]:
        """The numbers of a line's phonemes, without the space before it and without pads; accent: "en-us", "en-gb"."""
        words = self._line(text).split()
        if accent == "en-gb":
            words = [self._british(word.rstrip(MARKS)) + word[len(word.rstrip(MARKS)) :] for word in words]
        return [VOCABULARY[c] for c in " ".join(words)]


_VOWELS: Final = "AIOQWYaiuæɑɒɔəɛɜɪʊʌᵊᵻɐ"
_BEFORE_R: Final = {"ɜɹ": "ɜː", "ɑɹ": "ɑː", "ɔɹ": "ɔː", "əɹ": "ə", "ɪɹ": "ɪə", "ɛɹ": "ɛː", "ʊɹ": "ʊə"}
"""A vowel with the r that British voices do not say, where no vowel follows -> the vowel that they say."""
_SAME_IN_AMERICA: Final = ("a", "ɑː"), ("ɒ", "ɑː"), ("ɔː", "ɒ")
"""Vowels that are one in American and two in British: "cat" and "bath", "hot" and "father", "law" and "dog"."""


def british(sounds: str, known: Set[str] = frozenset()) -> str:
    """Give a word's American sounds as a British voice says them: r only before vowels, the vowels of "hot" and "go".

    The rules follow the sounds and not the spelling, so that the text, which is American sounds, tells what is heard.
    known: how British words sound. It is asked which of the two vowels stands where American has one.
    """
    made = re.sub(rf"(?:{'|'.join(_BEFORE_R)})(?![ˈˌ]?[{_VOWELS}])", lambda m: _BEFORE_R[m[0]], sounds)
    made = made.replace("ɜɹ", "ɜːɹ").replace("O", "Q").replace("T", "t").replace("ᵻ", "ɪ")
    made = re.sub(r"ɑ(?!ː)", "ɒ", made).replace("æ", "a")
    made = re.sub(r"ɔ(?!ː)", "ɔː", made)
    stressed = "".join(STRESSES)
    made = re.sub(rf"(?<=[{stressed}])([iu])(?![ˈˌ]?ə)|(?<=[{stressed}])u", lambda m: f"{m[0]}ː", made)
    if made not in known:
        for old, new in _SAME_IN_AMERICA:
            if old in made and (other := made.replace(old, new, 1)) in known:
                return other
    return made
