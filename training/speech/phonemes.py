"""Text to the phonemes that Kokoro was taught: espeak-ng's IPA, rewritten in Kokoro's alphabet.

Contract: `Phonemes.tokens(text)` gives the numbers of one accent's phonemes, with punctuation, without pads. Words are
parted by SPACE; espeak joins some words ("of the"), so there may be fewer groups than words.
"""

import ctypes
import importlib
import re
from pathlib import Path
from typing import Any

VOCABULARY = {
    ";": 1, ":": 2, ",": 3, ".": 4, "!": 5, "?": 6, "—": 9, "…": 10, '"': 11, "(": 12, ")": 13, "“": 14, "”": 15,
    " ": 16, "A": 24, "I": 25, "O": 31, "Q": 33, "T": 36, "W": 39, "Y": 41, "ᵊ": 42, "a": 43, "b": 44, "d": 46,
    "e": 47, "f": 48, "h": 50, "i": 51, "j": 52, "k": 53, "l": 54, "m": 55, "n": 56, "o": 57, "p": 58, "s": 61,
    "t": 62, "u": 63, "v": 64, "w": 65, "z": 68, "ɑ": 69, "ɐ": 70, "ɒ": 71, "æ": 72, "ɔ": 76, "ð": 81, "ʤ": 82,
    "ə": 83, "ɛ": 86, "ɜ": 87, "ɡ": 92, "ɪ": 102, "ŋ": 112, "θ": 119, "ɹ": 123, "ɾ": 125, "ʃ": 131, "ʧ": 133,
    "ʊ": 135, "ʌ": 138, "ʒ": 147, "ʔ": 148, "ˈ": 156, "ˌ": 157, "ː": 158, "ᵻ": 177,
}  # fmt: skip
SPACE = VOCABULARY[" "]
SILENT = frozenset(VOCABULARY[c] for c in ';:,.!?—…"()“” ˈˌː')
"""Tokens that are no sound of their own: punctuation, spaces, marks of stress and length."""

_COMMON = (
    ("ʔˌn\u0329", "tᵊn"), ("ʔn\u0329", "tᵊn"), ("a^ɪ", "I"), ("a^ʊ", "W"), ("d^ʒ", "ʤ"), ("e^ɪ", "A"), ("t^ʃ", "ʧ"),
    ("ɔ^ɪ", "Y"), ("ə^l", "ᵊl"), ("ʲ", ""), ("ɚɹ", "əɹ"), ("ɚ", "əɹ"), ("r", "ɹ"), ("x", "k"), ("ç", "k"), ("ɬ", "l"),
    ("\u0303", ""), ("ʔ", "t"),
)  # fmt: skip
_ACCENTS = {
    "en-us": (("o^ʊ", "O"), ("ɜːɹ", "ɜɹ"), ("ɜː", "ɜɹ"), ("ɪə", "iə"), ("ː", ""), ("e", "A"), ("ɾ", "T")),
    "en-gb": (("e^ə", "ɛː"), ("iə", "ɪə"), ("ə^ʊ", "Q"), ("e", "A"), ("ɾ", "T")),
}
_VOICES = {"en-us": b"en-us", "en-gb": b"gmw/en-GB-x-rp"}
_SYLLABIC = re.compile(r"(\S)\u0329")
_PIECE = re.compile(r"([;:,.!?…()\"“”—]+)")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "«": "“", "»": "”", "–": "—", "[": "(", "]": ")"})
_JOINED = re.compile(
    r"(?<=[bdfklmnpstvz])(?=ð[əɪ](?:\s|$))"
)  # espeak reads "of the" as one word; no English word ends so
_I = re.compile(r"(?<![^\s“\"(—])I(?=[mvld]?(?![\wˈˌ]))")  # unstressed at the start, "I" is swallowed
_FINAL = re.compile(r"(?<=\w)ɪ(?!\w)")
_FOLLOWS = re.compile(r"\s+(?=[;:,.!?…)”])")
_SYNCHRONOUS, _NO_EXIT, _UTF8 = 2, 0x8000, 1
_IPA_TIED = 0x02 | 0x80 | (ord("^") << 8)


class Phonemes:
    """libespeak-ng in this process: one instance a process, as its state is global. `library` and `data`: what
    espeakng_loader names, or a system's own."""

    def __init__(self, library: Path, data: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        if self._library.espeak_Initialize(_SYNCHRONOUS, 0, str(data).encode(), _NO_EXIT) <= 0:
            raise RuntimeError(f"espeak-ng: no voice data under {data}")
        self._library.espeak_TextToPhonemes.restype = ctypes.c_char_p
        self._accent = ""

    @classmethod
    def packaged(cls) -> "Phonemes":
        """By the library that espeakng-loader brings."""
        loader: Any = importlib.import_module("espeakng_loader")  # only where speech for training is made
        return cls(Path(loader.get_library_path()), Path(loader.get_data_path()))

    def _ipa(self, text: str) -> str:
        rest = ctypes.c_char_p(text.encode())
        parts: list[str] = []
        while rest.value:
            part = self._library.espeak_TextToPhonemes(ctypes.byref(rest), _UTF8, _IPA_TIED) or b""
            parts.append(part.decode().strip())
        return " ".join(p for p in parts if p)

    def phonemes(self, text: str, accent: str) -> str:
        """`text` in Kokoro's alphabet; accent: "en-us" or "en-gb"."""
        if accent != self._accent:
            if self._library.espeak_SetVoiceByName(_VOICES[accent]) != 0:
                raise ValueError(f"espeak-ng: no voice {accent!r}")
            self._accent = accent
        said: list[str] = []
        for piece in _PIECE.split(text.translate(_QUOTES)):
            if _PIECE.fullmatch(piece):
                said.append(piece)
                continue
            # A space at either end parts words from what stands there; espeak says nothing of it.
            left, right = piece[:1].isspace(), piece[-1:].isspace()
            ipa = self._ipa(piece) if piece.strip() else ""
            said.append((" " if left else "") + ipa + (" " if right and ipa else ""))
        return rewrite("".join(said), accent)

    def tokens(self, text: str, accent: str) -> list[int]:
        """Numbers of the phonemes, without pads."""
        return [VOCABULARY[c] for c in self.phonemes(text, accent) if c in VOCABULARY]


def rewrite(ipa: str, accent: str) -> str:
    """espeak's IPA with ties -> Kokoro's alphabet."""
    for old, new in (*_COMMON, *_ACCENTS[accent]):
        ipa = ipa.replace(old, new)
    ipa = _SYLLABIC.sub(r"ᵊ\1", ipa).replace("\u0329", "").replace("^", "").replace("-", "").replace("_", "")
    ipa = _I.sub("ˌI", _JOINED.sub(" ", ipa))
    if accent == "en-gb":  # the voice that says "bath" as it should ends words in sounds that Kokoro was not taught
        ipa = _FINAL.sub("i", ipa.replace("ɐɹ", "əɹ"))
        ipa = re.sub(r"(?<=\w)ɐ", "ə", ipa)
    return re.sub(r"\s+", " ", _FOLLOWS.sub("", ipa)).strip()
