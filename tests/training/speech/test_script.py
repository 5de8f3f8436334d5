"""The script keeps its sentences and their phonemes, and knows which of them are aligned."""

from pathlib import Path

import numpy as np

from tests.training.speech.test_sounds import sounds
from training.speech.script import MOST, groups, load_scripts, prepared
from training.speech.sounds import VOCABULARY


def tokens(phonemes: str) -> list[int]:
    """Give the numbers of phonemes."""
    return [VOCABULARY[c] for c in phonemes]


def test_groups_begin_at_words_with_sound() -> None:
    """A dash between two words is no word, nor are marks alone."""
    row = tokens("ˈA — bˈi, sˈi")
    assert [row[i] for i in groups(row)] == tokens("ˈbs")
    assert groups(tokens("… ,")) == []


def test_a_script_comes_back_as_it_was_saved_and_knows_which_sentences_are_aligned(tmp_path: Path) -> None:
    """A sentence is aligned where each written word is one word of sounds."""
    lines = ["Two words.", "It is $5.", "A well-known NASA.", "", "\t", "word " * MOST]
    made, left_out = prepared(lines, sounds())
    made.save(tmp_path / "one.npz")
    prepared(["Hello, BBC."], sounds())[0].save(tmp_path / "two.npz")
    again = load_scripts([tmp_path / "one.npz", tmp_path / "two.npz"])
    assert left_out == 1 and again.texts == ["Two words.", "It is $5.", "A well-known NASA.", "Hello, BBC."]
    said = ["tˈu wˈɜɹdz.", "ɪt ɪz fˈIv dˈɑləɹz.", "ɐ wˈɛl nˈOn nˈæsə.", "həlˈO, bˌibˌisˈi."]
    for accent in range(2):
        assert again.aligned[accent].tolist() == [True, False, False, True]
    assert [again.sounds(i) for i in range(4)] == said
    assert [again.line(i, 0).tolist() for i in range(4)] == [tokens(line) for line in said]
    assert again.line(3, 1).tolist() == tokens("həlˈQ, bˌiːbˌiːsˈiː.") and again.line(0, 1).dtype == np.uint8
