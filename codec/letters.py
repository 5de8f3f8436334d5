"""Words that are read letter by letter: "BBC", "UK", "PDF".

A model that knows small letters only is handed "bbc" otherwise and tries to say it as a word. A word counts as letters
if it is written in capitals and either has no vowel or is known to be spelled; whatever is shouted has vowels.
"""

from typing import Final

LONGEST: Final = 5
"""Letters; longer words in capitals are shouted."""
KNOWN: Final = frozenset(
    "ai api atm ceo cfo cia cpu diy eeg ekg eta eu ev faq fbi gpu hiv ibm icu iou ip ipo iq irs isbn mit mri nba oecd "
    "rna sos suv uae ucla ufo ui uk un url usa usb usd vip ymca".split()
)
"""Spelled although they have a vowel."""
SAID: Final = frozenset("brr dr grr hm hmm jr mm mmm mr mrs ms mt pfft psst pst sh shh sr st tsk zzz".split())
"""Said although they have none."""
_VOWELS: Final = frozenset("aeiouy")


def spelled(core: str) -> str:
    """``core``, a word without marks, with spaces between its letters if it is read by them; "'s" may follow."""
    stem = core[:-2] if core[-2:] in ("'s", "’s") else core
    if not (2 <= len(stem) <= LONGEST and stem.isascii() and stem.isalpha() and stem.isupper()):
        return core
    low = stem.lower()
    letters = low in KNOWN or (_VOWELS.isdisjoint(low) and low not in SAID)
    return " ".join(stem) + core[len(stem) :] if letters else core
