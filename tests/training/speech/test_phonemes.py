"""Phonemes as Kokoro was taught them, and the script that keeps them."""

from pathlib import Path

import numpy as np

from training.speech.phonemes import VOCABULARY, rewrite
from training.speech.script import Script, groups, load_script, prepared


def tokens(phonemes: str) -> list[int]:
    return [VOCABULARY[c] for c in phonemes]


class Reader:
    """Reads what stands in a table, in both accents."""

    def __init__(self, table: dict[str, str]) -> None:
        self._table = table

    def tokens(self, text: str, accent: str) -> list[int]:
        return tokens(self._table[text])


def test_espeaks_ipa_becomes_kokoros_alphabet() -> None:
    assert rewrite("həlˈo^ʊ , wˈɜːld", "en-us") == "həlˈO, wˈɜɹld"
    assert rewrite("həlˈə^ʊ, wˈɜːld", "en-gb") == "həlˈQ, wˈɜːld"
    assert rewrite("bˈɑːɾə^l t^ʃˈe^ɪnd^ʒ", "en-us") == "bˈɑTᵊl ʧˈAnʤ"
    assert rewrite("tˈɪʔn\u0329", "en-us") == "tˈɪtᵊn"


def test_words_that_espeak_joins_are_parted_and_others_are_not() -> None:
    assert rewrite("ʌvðə ɪnðɪ", "en-us") == "ʌv ðə ɪn ðɪ"
    assert rewrite("ˈʌðə", "en-gb") == "ˈʌðə"


def test_the_word_i_is_stressed_a_little() -> None:
    assert rewrite("a^ɪ kˈænt, a^ɪm, “a^ɪ mˈa^ɪt", "en-us") == "ˌI kˈænt, ˌIm, “ˌI mˈIt"
    assert rewrite("ma^ɪ ˈa^ɪs a^ɪdˈiə", "en-us") == "mI ˈIs Idˈiə"


def test_british_words_end_in_sounds_of_the_alphabet() -> None:
    assert rewrite("twˈɛntɪ ðɪ bˈɛtɐ ɐ kˈʌlɐɹ", "en-gb") == "twˈɛnti ði bˈɛtə ɐ kˈʌləɹ"


def test_groups_begin_at_words_with_sound() -> None:
    row = tokens("ˈA — bˈi, sˈi")
    assert [row[i] for i in groups(row)] == tokens("ˈbs")
    assert groups(tokens("… ,")) == []


def test_a_script_comes_back_as_it_was_saved_and_knows_which_sentences_are_aligned(tmp_path: Path) -> None:
    table = {"two words": "tˈu wˈɜɹdz", "five dollars": "fˈIv dˈɑləɹz", "joined up": "ʤˈYndʌp", "b": "b"}
    lines = ["Two words\ttwo words", "$5\tfive dollars", "joined up", "b", "", "\t"]
    made, left_out = prepared(lines, Reader(table))
    made.save(tmp_path / "script.npz")
    again: Script = load_script(tmp_path / "script.npz")
    assert left_out == 1
    assert again.texts == ["Two words", "$5", "joined up"]
    assert again.spoken == ["two words", "five dollars", "joined up"]
    for accent in range(2):
        assert again.aligned[accent].tolist() == [True, False, False]
        assert [again.line(i, accent).tolist() for i in range(3)] == [
            tokens(table[t]) for t in ("two words", "five dollars", "joined up")
        ]
        assert again.line(0, accent).dtype == np.uint8
