"""The dictionary's file, and the weights beside it."""

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.sounds.dictionary import MOST_BYTES, Dictionary, Entry
from codec.sounds.neighbours import Neighbours
from codec.sounds.symbols import SYMBOLS
from engines.manifest import ManifestError
from tests.codec.sounds.voices import PARTS, shipped

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1, max_size=8)


@given(st.dictionaries(WORDS, st.sampled_from(["ˈA", "bˈi"]), max_size=30), WORDS)
def test_every_word_is_found_and_no_other(words: dict[str, str], other: str) -> None:
    """Whatever their letters and however few they are."""
    lines = [f"{word}\t{sounds}\n" for word, sounds in sorted(words.items(), key=lambda pair: pair[0].encode())]
    dictionary = Dictionary("".join(lines).encode())
    assert all(dictionary.find(word) == Entry(sounds) for word, sounds in words.items())
    assert (dictionary.find(other) is not None) == (other in words)


def test_an_entry_holds_its_other_ways() -> None:
    """And whether the word is a common one."""
    dictionary = Dictionary("use\tjˈuz\t+\tN=jˈus\nzoo\tzˈu\n".encode())
    assert dictionary.find("use") == Entry("jˈuz", True, {"N": "jˈus"})
    assert dictionary.find("zoo") == Entry("zˈu")


def test_the_shipped_one_holds_sounds_only_and_is_small() -> None:
    """1.5 MB packed, sorted, and a search costs no memory."""
    path = shipped() / PARTS.dictionary
    assert path.stat().st_size <= 1_500_000
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    words = [line.split("\t")[0] for line in lines]
    assert words == sorted(words, key=str.encode) and len(set(words)) == len(words) > 150_000
    for line in lines:
        _, *ways = line.split("\t")
        for way in ways:
            assert way == "+" or set(way.split("=")[-1]) <= SYMBOLS | {" "}, line
    tracemalloc.start()
    dictionary = Dictionary.load(path)
    assert dictionary.find("zebra") is not None
    assert tracemalloc.get_traced_memory()[0] < 8 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("damaged", ["missing", "no gzip", "cut", "a line without an end", "a bomb"])
def test_a_damaged_file_is_refused_by_name(damaged: str, tmp_path: Path) -> None:
    """In one sentence, and nothing large is unpacked."""
    path = tmp_path / "dictionary.gz"
    whole = gzip.compress("zoo\tzˈu\n".encode())
    contents = {
        "no gzip": b"zoo", "cut": whole[:-9], "a line without an end": gzip.compress(b"zoo\tzu"),
        "a bomb": gzip.compress(b"a" * (MOST_BYTES + 10)),
    }  # fmt: skip
    if damaged in contents:
        path.write_bytes(contents[damaged])
    told = "holds more than 16777216 bytes" if damaged == "a bomb" else "cannot be read|ends inside a line"
    with pytest.raises(ManifestError, match=rf"dictionary\.gz: the pronouncing dictionary ({told})"):
        Dictionary.load(path)


@pytest.mark.parametrize("text", ["", "[]", '{"weights": {}}', '{"weights": {"1the": "x"}, "own": {}}'])
def test_damaged_weights_are_refused_by_name(text: str, tmp_path: Path) -> None:
    """Missing, of another shape, not of numbers."""
    path = tmp_path / "neighbours.json"
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"neighbours\.json: the weights"):
        Neighbours.load(path)
    with pytest.raises(ManifestError, match="the weights"):
        Neighbours.load(tmp_path / "none.json")
