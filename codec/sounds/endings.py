"""Words that a dictionary lacks, out of those that it has: plurals, tenses, other endings, prefixes, compounds.

Each rule looks for its stem a few times, so a word costs a bounded number of look-ups. How often each is right stands
in the notes (2026-11-sounds.md); a rule that was wrong more often than the model that guesses is not here.
"""

from collections.abc import Callable, Iterator
from typing import Final

from codec.sounds.dictionary import Entry
from codec.sounds.symbols import PRIMARY, tapped, weaker

Find = Callable[[str], Entry | None]
"""The dictionary: a word → how it is read, None where it is not there."""
Known = Callable[[str], str | None]
"""A stem in small letters → its sounds, None where they are not known."""

_SHORTEST: Final = 3
"""How many letters a stem has at least: with fewer almost any word would be a stem with an ending."""
_DEPTH: Final = 3
"""Rules that a word may be made by, one upon the other ("unfriended's")."""
_SHORTEST_PART: Final = 4
"""How many letters each part of a compound has at least: with fewer parts are found where none are."""
_VOICELESS: Final = frozenset("ptkfθ")
_HISSING: Final = frozenset("szʃʒʧʤ")


def plural(stem: str) -> str:
    """Sounds with the ending of "cats", "dogs", "horses"; possessives have the same."""
    return stem + ("s" if stem[-1] in _VOICELESS else "ᵻz" if stem[-1] in _HISSING else "z")


def past(stem: str) -> str:
    """Sounds with the ending of "looked", "turned", "ended"."""
    if stem[-1] in "td":
        return tapped(stem) + "ᵻd"
    return stem + ("t" if stem[-1] in "pkfθʃsʧ" else "d")


def _before(ending: str) -> Callable[[str], str]:
    """A rule for an ending whose first sound is a weak vowel."""
    return lambda stem: tapped(stem) + ending


def _after(ending: str) -> Callable[[str], str]:
    """A rule for an ending that changes nothing before it."""
    return lambda stem: stem + ending


def _ly(stem: str) -> str:
    if stem.endswith("bᵊl") or stem.endswith("bəl"):
        return stem[:-2] + "li"
    if stem.endswith("əl") or stem.endswith("ᵊl"):
        return stem + "i"
    return stem + ("ᵊli" if stem.endswith("k") else "li")


_ENDINGS: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("'s", plural),
    ("s'", _after("")),
    ("'", _after("")),
    ("in'", _before("ɪn")),
    ("'ll", _after("əl")),
    ("'ve", _after("əv")),
    ("'re", _after("əɹ")),
    ("'d", past),
    ("n't", _after("ᵊnt")),
    ("s", plural),
    ("ed", past),
    ("ing", _before("ɪŋ")),
    ("ings", _before("ɪŋz")),
    ("er", _before("əɹ")),
    ("ers", _before("əɹz")),
    ("est", _before("ᵻst")),
    ("ly", _ly),
    ("ness", _after("nəs")),
    ("less", _after("ləs")),
    ("ful", _after("fᵊl")),
    ("ment", _after("mənt")),
    ("ments", _after("mənts")),
    ("able", _before("əbᵊl")),
    ("ish", _before("ɪʃ")),
    ("ism", _before("ˌɪzəm")),
    ("ist", _before("ɪst")),
    ("ists", _before("ɪsts")),
)
"""The endings by their letters, each with the function that adds its sounds to the stem's."""
_APOSTROPHES: Final = frozenset(ending for ending, _ in _ENDINGS if "'" in ending)

_BRITISH: Final = (("isation", "ization"), ("ise", "ize"), ("ising", "izing"), ("our", "or"), ("lful", "llful"))
"""Spellings, and what they are in American."""
_PREFIXES: Final = {
    "anti": "ˌænti", "bio": "bˌIO", "co": "kˌO", "counter": "kˌWntəɹ", "de": "dˌi", "dis": "dˌɪs", "geo": "ʤˌiO",
    "hyper": "hˌIpəɹ", "infra": "ˌɪnfɹə", "inter": "ˌɪntəɹ", "intra": "ˌɪntɹə", "macro": "mˌækɹO", "mis": "mˌɪs",
    "multi": "mˌʌlti", "neo": "nˌiO", "neuro": "nˌʊɹO", "non": "nˌɑn", "out": "ˌWt", "over": "ˌOvəɹ",
    "photo": "fˌOTO", "poly": "pˌɑli", "post": "pˌOst", "pre": "pɹˌi", "pseudo": "sˌudO", "psycho": "sˌIkO",
    "re": "ɹˌi", "semi": "sˌɛmi", "socio": "sˌOsiO", "trans": "tɹˌænz", "ultra": "ˌʌltɹə", "un": "ˌʌn",
    "under": "ˌʌndəɹ",
}  # fmt: skip
"""The prefixes that leave the stress with the stem, and their sounds."""
_STRONG_PREFIXES: Final = {
    "auto": "ˈɔTO", "crypto": "kɹˈɪptO", "cyber": "sˈIbəɹ", "eco": "ˈikO", "electro": "ɪlˈɛktɹO", "hydro": "hˈIdɹO",
    "mega": "mˈɛɡə", "meta": "mˈɛTə", "micro": "mˈIkɹO", "mid": "mˈɪd", "mini": "mˈɪni", "mono": "mˈɑnO",
    "nano": "nˈænO", "proto": "pɹˈOTO", "sub": "sˈʌb", "super": "sˈupəɹ", "tele": "tˈɛlə", "thermo": "θˈɜɹmO",
    "up": "ˈʌp",
}  # fmt: skip
"""The prefixes that take the stress, and their sounds."""
PREFIXES: Final = _PREFIXES | _STRONG_PREFIXES
"""All prefixes. Before a hyphen they are words of their own ("re-enter", "non-stop")."""
_SHORTEST_AFTER_PREFIX: Final = 4


def _stems(word: str, ending: str) -> Iterator[str]:
    """How the word may be written without the ending, the likeliest first."""
    stem = word[: -len(ending)]
    if ending in _APOSTROPHES:
        yield stem + "s" if ending == "s'" else stem + "ing" if ending == "in'" else stem
        return
    if len(stem) < _SHORTEST - 1:
        return
    if ending == "s":
        if stem[-1] == "s":
            return
        if stem.endswith("ie"):
            yield stem[:-2] + "y"
        yield stem
        if stem[-1] == "e" and (stem[-2] in "sxzo" or stem[-3:-1] in ("ch", "sh")):
            yield stem[:-1]
        return
    doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "aeiouywhs"
    if ending[0] in "aeiy":
        if stem[-1] == "i" and ending[0] == "e":
            yield stem[:-1] + "y"
        if doubled:
            yield stem[:-1]
        if stem.endswith("ck") and ending in ("ed", "ing", "er"):
            yield stem[:-1]
        # "hoped" is of hope, not of hop; "acted" of act: whichever the dictionary has.
        yield stem + "e"
        yield stem
    else:
        if stem[-1] == "i":
            yield stem[:-1] + "y"
        yield stem
        if ending == "ly":
            yield stem + "le"
            yield stem + "l"


def _ended(word: str, known: Known) -> str | None:
    """The sounds of a word with an ending whose stem is known."""
    for ending, rule in _ENDINGS:
        if word.endswith(ending):
            for stem in _stems(word, ending):
                if len(stem) < 2 or (sounds := known(stem)) is None:
                    continue
                if ending != "in'":
                    return rule(sounds)
                if sounds.endswith("ɪŋ"):
                    return sounds[:-1] + "n"
    return None


def _british(word: str, known: Known) -> str | None:
    """The sounds of a word in British spelling, if it is known in American spelling."""
    for british, american in _BRITISH:
        if british in word[2:]:
            sounds = known(american.join(word.rsplit(british, 1)))
            if sounds is not None:
                return sounds
    return None


def _prefixed(word: str, known: Known) -> str | None:
    """The sounds of a word with a prefix, if the rest is known and has a stress to keep."""
    for size in range(7, 1, -1):
        prefix = word[:size]
        if len(word) - size >= _SHORTEST_AFTER_PREFIX and (prefix in _PREFIXES or prefix in _STRONG_PREFIXES):
            rest = known(word[size:])
            if rest is not None and PRIMARY in rest:
                return _PREFIXES[prefix] + rest if prefix in _PREFIXES else _STRONG_PREFIXES[prefix] + weaker(rest)
    return None


def _compound(word: str, find: Find) -> str | None:
    """The sounds of two common words written as one. The first keeps its stress; the longest first part counts."""
    for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
        second = find(word[cut:])
        if second is not None and second.common and PRIMARY in second.sounds:
            first = find(word[:cut])
            if first is not None and first.common and PRIMARY in first.sounds:
                return first.sounds + weaker(second.sounds)
    return None


def derived(word: str, find: Find) -> str | None:
    """The sounds of a word in small letters, made of those of others; None where no rule knows it.

    ``find`` looks up a word as it is written. A stem may be derived itself, up to ``_DEPTH`` rules deep.
    """
    return _derived(word, find, _DEPTH)


def _derived(word: str, find: Find, depth: int) -> str | None:
    def known(stem: str) -> str | None:
        entry = find(stem)
        if entry is not None:
            return entry.sounds
        return _derived(stem, find, depth - 1) if depth > 1 else None

    return _ended(word, known) or _british(word, known) or _prefixed(word, known) or _compound(word, find)
