"""The recipe of the dictionary: two lists become one, and nothing that rules make is kept."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.sounds.dictionary import Dictionary, Entry
from codec.sounds.endings import derived
from codec.sounds.symbols import SYMBOLS
from training.sounds import cmudict
from training.sounds.__main__ import HERE
from training.sounds.align import Aligner, units
from training.sounds.dictionary import build, caseless, corrected, merged, misaki, pruned, write

GOLD = {
    "use": {"DEFAULT": "jˈuz", "NOUN": "jˈus"}, "deliberate": {"ADJ": "dəlˈɪbəɹət", "DEFAULT": "dəlˈɪbəɹˌAt"},
    "water": "wˈɔɾəɹ", "Houston": "hjˈustᵊn", "polish": "pˈɑlɪʃ", "Polish": "pˈOlɪʃ", "NASA": "nˈæsə",
    "US": {"DEFAULT": "ˌʌs", "NOUN": None}, "able-bodied": "x", "minute": {"ADJ": "mInˈut", "DEFAULT": "mˈɪnət"},
}  # fmt: skip


def test_misakis_ways_become_tags() -> None:
    """The checked list stands over the other one, hyphens and shouted words are left out, and an ending tells a
    verb."""
    words = misaki(GOLD, {"use": "x", "cat": "kˈæt"})
    assert words == {
        "use": Entry("jˈuz", others={"N": "jˈus"}), "deliberate": Entry("dəlˈɪbəɹət", others={"V": "dəlˈɪbəɹˌAt"}),
        "water": Entry("wˈɔTəɹ"), "Houston": Entry("hjˈustᵊn"), "polish": Entry("pˈɑlɪʃ"), "Polish": Entry("pˈOlɪʃ"),
        "NASA": Entry("nˈæsə"), "cat": Entry("kˈæt"), "minute": Entry("mˈɪnət"),
    }  # fmt: skip
    assert caseless(words).keys() == {
        "use", "deliberate", "water", "houston", "polish", "Polish", "NASA", "cat", "minute"
    }  # fmt: skip


def test_cmudict_is_rewritten_as_the_others_are() -> None:
    """What both have in common tells how: here a t that is tapped, and a weak vowel. Letters have their names."""
    lines = ["batter B AE1 T ER0", "matter M AE1 T ER0", "latter L AE1 T ER0", "patter P AE1 T ER0",
             "fatter F AE1 T ER0 # x", "fatter(2) F AE1 D ER0",
             "ibm AY1 B IY1 EH1 M", "fatter's F AE1 T ER0 Z"]  # fmt: skip
    literal = cmudict.read(lines)
    assert literal["fatter"] == ["fˈætəɹ", "fˈædəɹ"]
    known = {f"{c}atter": Entry(f"{c}ˈæTəɹ") for c in "bmlp"}
    assert merged(known, literal) == known | {"fatter": Entry("fˈæTəɹ"), "ibm": Entry("ˌIbˌiˈɛm")}


def test_what_rules_make_is_left_out_and_still_read(tmp_path: Path) -> None:
    """The runtime makes the same of whatever is left out, and the file is the same each time."""
    words = {
        "cat": Entry("kˈæt"), "cats": Entry("kˈæts"), "box": Entry("bˈɑks"), "boxes": Entry("bˈɑksᵻz"),
        "boxing": Entry("bˈɑksɪŋ"), "odd": Entry("ˈɑd"), "odds": Entry("ˈɔdz"), "unboxing": Entry("ˌʌnbˈɑksɪŋ"),
        "Cats": Entry("x"),
    }  # fmt: skip
    kept = pruned(words)
    assert kept.keys() == {"cat", "box", "odd", "odds", "Cats"}
    del kept["Cats"]
    write(kept, tmp_path / "a.gz")
    write(dict(reversed(kept.items())), tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    dictionary = Dictionary.load(tmp_path / "a.gz")
    for word in words.keys() - {"Cats"}:
        entry = dictionary.find(word)
        assert (entry.sounds if entry else derived(word, dictionary.find)) == words[word].sounds


def test_what_is_no_sound_is_not_written(tmp_path: Path) -> None:
    """It would reach the talker."""
    with pytest.raises(ValueError, match="cat: 'kat' holds what is no sound"):
        write({"cat": Entry("kat")}, tmp_path / "a.gz")


def test_corrections_are_lines_of_the_dictionary() -> None:
    """Each has a word, sounds and tags, and no word occurs twice."""
    lines = (HERE / "data" / "corrections.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split("\t") for line in lines if line and not line.startswith("#")]
    assert len({word for word, *_ in entries}) == len(entries) > 100
    for word, *ways in entries:
        assert ways and all(set(way.split("=")[-1]) <= SYMBOLS | {" "} for way in ways), word
    assert corrected({"a": Entry("x")}, ["# of", "", "a\tɐ\t.=ˈA"]) == {"a": Entry("ɐ", others={".": "ˈA"})}


def test_other_packages_than_the_pinned_are_refused(tmp_path: Path) -> None:
    """The message names the package."""
    (tmp_path / "misaki-0.9.4-py3-none-any.whl").write_bytes(b"other")
    with pytest.raises(ValueError, match="misaki.*pinned is 90e2eeb1"):
        build(tmp_path, [], [])


def test_letters_find_their_sounds() -> None:
    """After a few rounds silent letters have no sound, and each sound stands at its letter."""
    words = [(word, units(sounds)) for word, sounds in (
        ("machine", "məʃˈin"), ("cat", "kˈæt"), ("mat", "mˈæt"), ("nine", "nˈIn"), ("chin", "ʧˈɪn"), ("she", "ʃˈi"),
        ("mine", "mˈIn"), ("tin", "tˈɪn"), ("taxi", "tˈæksi"), ("can", "kˈæn"), ("hat", "hˈæt"), ("chef", "ʃˈɛf"),
    )]  # fmt: skip
    aligner = Aligner()
    for _ in range(6):
        aligner.learn(words)
    assert aligner.align("mine", units("mˈIn")) == ("m", "ˈI", "n", "")
    assert aligner.align("cat", units("kˈæt")) == ("k", "ˈæ", "t")
    assert aligner.align("taxi", units("tˈæksi")) == ("t", "ˈæ", "ks", "i")


@given(st.text("abc", min_size=1, max_size=6), st.lists(st.sampled_from(["k", "ˈA", "t"]), max_size=14))
def test_chunks_are_the_sounds_in_their_order(word: str, sounds: list[str]) -> None:
    """Each letter has one chunk of two sounds at most. Where there are more sounds than letters can say, there are no
    chunks."""
    chunks = Aligner().align(word, sounds)
    if chunks is None:
        assert len(sounds) > 2 * len(word)
    else:
        assert len(chunks) == len(word) and "".join(chunks) == "".join(sounds)
        assert all(len(units(chunk)) <= 2 for chunk in chunks)
