"""IPA and respellings, as people write them in dictionaries, in the model's symbols."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from codec.sounds.symbols import PRIMARY, SECONDARY, STRESSES, VOWELS


class Unreadable(ValueError):
    """A symbol that stands for no English sound; the message names it."""


_IPA: Final[Mapping[str, str]] = {
    # Two letters of one sound, and what dictionaries write for American vowels.
    "tʃ": "ʧ", "dʒ": "ʤ", "t͡ʃ": "ʧ", "d͡ʒ": "ʤ", "aɪ": "I", "aʊ": "W", "eɪ": "A", "oʊ": "O", "əʊ": "O", "ɔɪ": "Y",
    "ɪə": "ɪɹ", "eə": "ɛɹ", "ɛə": "ɛɹ", "ʊə": "ʊɹ", "ɪər": "ɪɹ", "eər": "ɛɹ", "ɛər": "ɛɹ", "ʊər": "ʊɹ",
    "ɪəɹ": "ɪɹ", "eəɹ": "ɛɹ", "ɛəɹ": "ɛɹ", "ʊəɹ": "ʊɹ", "ɜːr": "ɜɹ", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɝr": "ɜɹ", "ɝɹ": "ɜɹ",
    "ɚr": "əɹ", "ɚɹ": "əɹ", "iː": "i", "uː": "u", "ɑː": "ɑ", "ɔː": "ɔ", "əl": "ᵊl", "l̩": "ᵊl", "n̩": "ᵊn", "m̩": "ᵊm",
    "ɛ̃": "æn",
    # Vowels.
    "i": "i", "ɪ": "ɪ", "e": "ɛ", "ɛ": "ɛ", "æ": "æ", "a": "ɑ", "ɑ": "ɑ", "ɒ": "ɑ", "ɔ": "ɔ", "o": "O", "ʊ": "ʊ",
    "u": "u", "ʌ": "ʌ", "ə": "ə", "ɐ": "ə", "ɜ": "ɜ", "ɝ": "ɜɹ", "ɚ": "əɹ", "y": "u", "ø": "ɜ", "œ": "ɜ", "ɨ": "ᵻ",
    "ʉ": "u", "ᵻ": "ᵻ", "ᵊ": "ᵊ",
    # Consonants.
    "b": "b", "d": "d", "f": "f", "g": "ɡ", "ɡ": "ɡ", "h": "h", "ɦ": "h", "j": "j", "k": "k", "l": "l", "ɫ": "l",
    "m": "m", "n": "n", "ŋ": "ŋ", "ɲ": "nj", "ʎ": "lj", "p": "p", "r": "ɹ", "ɹ": "ɹ", "ɾ": "T", "ɻ": "ɹ", "ʁ": "ɹ",
    "s": "s", "ʃ": "ʃ", "t": "t", "θ": "θ", "ð": "ð", "v": "v", "w": "w", "ʍ": "w", "x": "k", "χ": "k", "\xe7": "h",
    "z": "z", "ʒ": "ʒ", "ʤ": "ʤ", "ʧ": "ʧ", "ʔ": "t", "ɬ": "l", "β": "b", "ɣ": "ɡ", "ʂ": "ʃ", "ʐ": "ʒ", "ɕ": "ʃ",
    "ʑ": "ʒ", "ʈ": "t", "ɖ": "d", "c": "k", "ɟ": "ɡ", "q": "k",
    # What says nothing here: length, syllables, ties, aspiration.
    "ː": "", "ˑ": "", ".": "", "‿": "", "-": "", "ʰ": "", "ʲ": "", "ʷ": "", "͡": "", "̯": "", "̃": "n", "̪": "", "̥": "",
    "ˈ": PRIMARY, "'": PRIMARY, "ˌ": SECONDARY, ",": SECONDARY,
}  # fmt: skip

_RESPELLED: Final[Mapping[str, str]] = {
    "arr": "ɛɹ", "err": "ɛɹ", "irr": "ɪɹ", "orr": "ɔɹ", "urr": "ɜɹ", "air": "ɛɹ", "eer": "ɪɹ", "ear": "ɪɹ",
    "oor": "ʊɹ", "ire": "Iəɹ", "eye": "I", "tch": "ʧ", "igh": "I", "ar": "ɑɹ", "er": "ɜɹ", "ir": "ɜɹ", "or": "ɔɹ",
    "ur": "ɜɹ", "aw": "ɔ", "au": "ɔ", "ay": "A", "ai": "A", "ee": "i", "ea": "i", "eh": "ɛ", "ew": "ju", "ih": "ɪ",
    "oh": "O", "oa": "O", "oo": "u", "uu": "ʊ", "ow": "W", "ou": "W", "oy": "Y", "oi": "Y", "ah": "ɑ", "uh": "ʌ",
    "ch": "ʧ", "dh": "ð", "gh": "ɡ", "kh": "k", "ck": "k", "ng": "ŋ", "nk": "ŋk", "ph": "f", "sh": "ʃ", "th": "θ",
    "wh": "w", "zh": "ʒ", "a": "æ", "e": "ɛ", "i": "ɪ", "o": "ɑ", "u": "ʌ", "b": "b", "c": "k", "d": "d", "f": "f",
    "g": "ɡ", "h": "h", "j": "ʤ", "k": "k", "l": "l", "m": "m", "n": "n", "p": "p", "q": "k", "r": "ɹ", "s": "s",
    "t": "t", "v": "v", "w": "w", "x": "ks", "z": "z",
}  # fmt: skip
_TAPPED: Final = re.compile(f"(?<=[{''.join(VOWELS - {'ᵊ', 'ᵻ'})}ɹ])t(?=[AIOWYiuəɪᵻ]|ᵊl)")
"""A t between a vowel and a weak one, as Americans say it."""
_LONGEST: Final = 3
"""How many letters the longest spelling in either table has."""


def ipa(text: str) -> str:
    """``"ʃɪˈvɔːn"`` → ʃɪvˈɔn: a stress goes from before its syllable to before the vowel.

    Raises:
        Unreadable: a symbol of no English sound.
    """
    text = unicodedata.normalize("NFD", text).replace("c\u0327", "\xe7")
    said, stress, place = "", "", 0
    while place < len(text):
        size = next((n for n in range(_LONGEST, 0, -1) if text[place : place + n] in _IPA), 0)
        if not size:
            raise Unreadable(f"{text[place]!r} is no symbol of IPA that English has")
        sound = _IPA[text[place : place + size]]
        place += size
        if sound in STRESSES:
            stress = sound
        else:
            for symbol in sound:
                if symbol in VOWELS and stress:
                    said, stress = said + stress, ""
                said += symbol
    return _voiced(said, text)


def respelled(text: str) -> str:
    """``"hyoo-STUN"`` → hjustˈʌn: syllables with hyphens between, the strong one in capitals.

    Raises:
        Unreadable: a letter or sign that stands for no sound.
    """
    said = ""
    syllables = [syllable for syllable in text.split("-") if syllable]
    for syllable in syllables:
        if len(syllable) > 1 and syllable[0].isupper() and syllable[1:].islower():
            raise Unreadable(
                f"{syllable!r} begins with a capital as a word does: a line has one word and how it sounds"
            )
        sounds = _syllable(syllable.lower())
        if syllable.isupper() and len(syllables) > 1:
            vowel = next((i for i, symbol in enumerate(sounds) if symbol in VOWELS), 0)
            sounds = f"{sounds[:vowel]}{PRIMARY}{sounds[vowel:]}"
        elif len(syllables) > 1:
            sounds = sounds.replace("ʌ", "ə").replace("ɜɹ", "əɹ")  # "uh" and "er" are weak without a stress.
        said += sounds
    return _voiced(said, text)


def _syllable(letters: str) -> str:
    said, place = "", 0
    while place < len(letters):
        rest = letters[place:]
        # "y" begins a syllable as in yes and is else as in by.
        if rest[0] == "y":
            said += "j" if len(rest) > 1 and rest[1] in "aeiou" else "I"
            place += 1
            continue
        size = next((n for n in range(_LONGEST, 0, -1) if rest[:n] in _RESPELLED and len(rest) >= n), 0)
        if not size:
            raise Unreadable(f"{letters[place]!r} is no letter of a respelling such as hyoo-STUN, nor IPA")
        # A doubled consonant is one.
        if place and rest[0] == letters[place - 1] and rest[0] not in "aeiou":
            place += 1
            continue
        said += _RESPELLED[rest[:size]]
        place += size
    return said


def _voiced(said: str, text: str) -> str:
    if not any(symbol in VOWELS for symbol in said):
        raise Unreadable(f"{text!r} has no vowel")
    return _TAPPED.sub("T", said)
