"""Spliced pieces: every chunk says exactly the words that it stands for."""

import random

from hypothesis import given
from hypothesis import strategies as st

from training.asr.splice import Recording, Splicer
from training.shards import RATE

WORD = RATE // 4
WORDS = ["the", "sea", "was", "calm", "and", "we", "went", "home"]


def recordings(texts: list[list[str]]) -> tuple[list[Recording], dict[int, str]]:
    """Words of a quarter second each, cut everywhere inside; and which word begins at which sample of the pool."""
    out: list[Recording] = []
    said: dict[int, str] = {}
    at = 1000
    for words in texts:
        cuts = [(i * WORD, i) for i in range(1, len(words))]
        out.append(Recording(at, words, cuts))
        said |= {at + i * WORD: word for i, word in enumerate(words)}
        at += len(words) * WORD + 500
    return out, said


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=3, max_size=9), min_size=4, max_size=12),
    st.lists(st.lists(st.sampled_from([*WORDS, "unheard"]), min_size=3, max_size=20), min_size=1, max_size=5),
    st.integers(0, 100),
)
def test_chunks_hold_the_words(texts: list[list[str]], sentences: list[list[str]], seed: int) -> None:
    found, said = recordings(texts)
    splicer = Splicer([" ".join(s) for s in sentences])
    for recording in found:
        splicer.add("reader", recording)
    piece = splicer.piece("reader", random.Random(seed))
    if piece is None:
        return
    chunks, words = piece
    heard = [said[at] for start, length in chunks for at in range(start, start + length, WORD)]
    assert heard == words and "unheard" not in words and 3 <= len(words) <= 14
    assert any(" ".join(words) in " ".join(s) for s in sentences)


def test_what_was_said_in_one_go_is_taken_in_one_go() -> None:
    found, _ = recordings([["so", "the", "sea", "was", "calm", "then"]])
    splicer = Splicer(["the sea was calm"])
    splicer.add("reader", found[0])
    assert splicer.piece("reader", random.Random(1)) == (
        [(1000 + WORD, 4 * WORD)],
        ["the", "sea", "was", "calm"],
    )


def test_only_voices_with_words_enough_are_offered() -> None:
    found, _ = recordings([["so", "the", "sea", "was", "calm", "then"]])
    splicer = Splicer(["the sea was calm"])
    splicer.add("reader", found[0])
    assert splicer.voices(4) == ["reader"] and splicer.voices(5) == []
    splicer.clear()
    assert splicer.voices(0) == []
