"""Words in capitals that are read by their letters, for a model whose alphabet has small letters only.

Such a model would try to say "bbc" as a word. A word in capitals is read by its letters if it has no vowel or is known
to be spelled; any other is shouted, or an acronym that is said as a word ("NASA"). A model that knows capitals, or that
reads sounds, is given the word as it stands.
"""

import re
from typing import Final

from codec.text.vocabulary import CLOSING, MARKS, OPENING, STATES, ZONES

_LONGEST: Final = 5
"""How many capitals without a vowel are read by their letters at most; a longer row is shouted, or no language."""
_VOWELS: Final = frozenset("aeiouy")
_SPELLED: Final = ZONES | frozenset(
    "abc aclu acm adhd ai ak aol apa api asl atm bbq bce bmi cd ceo cfo ci cia cio coo cpi cpu cto dei diy dna"
    " doj dui ecb ecg edm edt eeg eia ekg eod eof epa erp esg esl espn eta etf eu ev evp faa faq fbi fia fyi ga"
    " gao gmo gop gpa gpu gui hiv hoa ia iaea ibm icbm icu id ide iea ieee il imf io iou ip ipo iq irs isbn iso"
    " isp iss iud ivf la lga mba mit mri mvp naacp nba ncaa ngo ocr oecd oem oid okr omb os pga pii poc pov ppe ri"
    " roi rpi rsvp sba sd sdi seo sme ssa ssi suv ua uae uav uci ucl ucla ufc ufo ui uk un uri url usa usaf usb"
    " usc usd usda usgs usmc usps ussr utc uti uv ux va vip wa wi ymca yoy"
    " aa aaa ac adp afc agm aoc apy arr asp aws ba bfa cob csi dau dob edi edr ehr eia emr eob er"
    " esa etd eur fy iam iep iot itv mau mfa mou nda nyse ooo osu ot ots ott oss pa po qa rfi slo sla tba tia tou"
    " ubi ucla uat uaw ugc upi usps uva uws vod ytd".split()
)
"""Acronyms, in small letters, that are read by their letters although they have a vowel. Others are added here."""
_SMALL: Final = frozenset(
    "api cpu css dns ftp gpt gpu html http https llm npm rc pdf php sql ssh stt tcp tts udp url usb xml".split()
)
"""Acronyms that are read by their letters where they are written in small letters too."""
_EITHER: Final = frozenset("ad it us who".split())
"""Capitals that are read by their letters, but as words where what stands around them is in capitals too."""
_SAID: Final = frozenset("brr dr grr hm hmm jr mm mmm mr mrs ms pfft psst sh shh sr st tsk zzz".split())
"""Capitals that are words although they have no vowel."""
_NAMED: Final = frozenset("cam dot fin gif hub ion jig lan mac pin ram rom sat sim van wan web".split())
"""Short words in capitals that are words in the plural too: "PINs", "GIFs"; others are letters: "POWs"."""
_WORD: Final = re.compile(r"(?<![A-Za-z])([a-z]?)([A-Z]{2,})(['’]?s)?(?!['’]?[A-Za-z])")
"""Capitals, a small letter before them as in "mRNA" and "iOS", and a plural's or a possessive's end."""
_LOW: Final = re.compile(rf"\b(?:{'|'.join(sorted(_SMALL, key=len, reverse=True))})\b")


def waits(word: str) -> bool:
    """Whether the word after ``word`` tells whether it is read by its letters."""
    return _plain(word).lower() in _EITHER and _plain(word).isupper()


def letters(said: str, before: str = "", following: str = "") -> str:
    """``said`` with spaces between the letters of what is read by them.

    Args:
        said: one written word as it is read, marks and all; it may have become several words.
        before, following: the words written beside it, "" at an end.
    """
    shouted = [_plain(word) for word in (before, following) if word]
    shouting = bool(shouted) and all(len(word) > 1 and word.isupper() and not _spelled(word) for word in shouted)
    place = before.endswith(",") and before[:1].isupper()

    def apart(m: re.Match[str]) -> str:
        small, stem, end = m[1], m[2], m[3] or ""
        either = stem.lower() in _EITHER and not shouting
        plural = end == "s" and len(stem) <= 3 and stem.lower() not in _NAMED
        if not (small or either or plural or _spelled(stem) or (place and stem in STATES)):
            return m[0]
        return " ".join(small + stem) + (end if end[:1] in ("'", "’") else "'s" if end else "")

    return _LOW.sub(lambda m: " ".join(m[0]), _WORD.sub(apart, said))


def _spelled(word: str) -> bool:
    low = word.lower()
    return low in _SPELLED or (len(low) <= _LONGEST and _VOWELS.isdisjoint(low) and low not in _SAID)


def _plain(word: str) -> str:
    return word.strip(OPENING + CLOSING + MARKS)
