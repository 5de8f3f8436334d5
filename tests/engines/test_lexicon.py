"""Lists of words: packed and back, damaged ones, and which words are written alike."""

import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexicon import Lexicon

WORD = st.text("abcdeiou'", min_size=1, max_size=24)
LISTS = st.lists(WORD, unique=True, max_size=60).map(sorted)


@given(LISTS)
def test_a_list_comes_back_as_it_was_packed(words: list[str]) -> None:
    lexicon = Lexicon.unpack(Lexicon(words).pack())
    assert list(lexicon.words) == words and len(lexicon) == len(words)
    assert all(word in lexicon for word in words) and "zzz" not in lexicon


def test_ten_letters_in_common_are_no_end_of_a_line() -> None:
    words = ["abcdefghij", "abcdefghija", "abcdefghijb"]
    assert list(Lexicon.unpack(Lexicon(words).pack()).words) == words


@given(st.binary(max_size=64))
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="LZMA|cut short"):
        Lexicon.unpack(data)


@given(st.binary(min_size=1, max_size=40))
def test_a_list_of_anything_is_one_or_refused(data: bytes) -> None:
    try:
        words = Lexicon.unpack(lzma.compress(data)).words
    except ValueError:
        return
    assert list(words) == sorted(set(words)) and all(word.isascii() for word in words)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0at\n\x03om\n", "word 1 has more letters"),
        (b"\0at", "no end"),
        (b"\0bat\n\0at\n", "'at' stands after 'bat'"),
        (b"\0at\n\x02\n", "'at' stands after 'at'"),
        (b"\0" + b"a" * 65 + b"\n", "no word of 1 to 64"),
    ],
)
def test_a_wrong_list_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lexicon.unpack(lzma.compress(data))


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="more than"):
        Lexicon.unpack(lzma.compress(b"\0" * (1 << 24)))


def edits(one: str, other: str) -> float:
    """The distance, letter by letter."""

    def cost(letter: str) -> float:
        return 0.6 if letter in "aeiouy" else 1.0

    table = {(0, 0): 0.0}
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            ways = [table[0, 0]] if i == j == 0 else []
            if i:
                ways.append(table[i - 1, j] + cost(one[i - 1]))
            if j:
                ways.append(table[i, j - 1] + cost(other[j - 1]))
            if i and j:
                a, b = one[i - 1], other[j - 1]
                both = min(cost(a), cost(b)) if cost(a) == cost(b) else 1.0
                ways.append(table[i - 1, j - 1] + (both if a != b else 0.0))
            table[i, j] = min(ways)
    return table[len(one), len(other)]


@given(LISTS.filter(bool), WORD, st.integers(1, 8))
def test_the_nearest_words_come_first(words: list[str], word: str, count: int) -> None:
    found = Lexicon(words).alike(word, count)
    assert len(found) == min(count, len(words)) == len(set(found))
    expected = sorted(edits(word, other) for other in words)[:count]
    assert [edits(word, other) for other in found] == pytest.approx(expected)


def test_nothing_is_like_nothing() -> None:
    assert Lexicon([]).alike("at", 3) == [] == Lexicon(["at"]).alike("", 3) == Lexicon(["at"]).alike("at", 0)
    assert Lexicon(["at", "bat"]).alike("é", 1) == []
