"""The model that guesses: its file, its bounds, and the one strong syllable."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.sounds.guess import Guesser, stressed
from codec.sounds.symbols import PRIMARY, SYMBOLS, VOWELS
from engines.manifest import ManifestError
from tests.codec.sounds.voices import write_guesses


@given(st.text(st.sampled_from(sorted(SYMBOLS)), max_size=12))
def test_a_word_has_one_strong_syllable(sounds: str) -> None:
    """If it has a vowel; nothing but stress changes."""
    found = stressed(sounds)
    assert found.replace("ˈ", "").replace("ˌ", "") == sounds.replace("ˈ", "").replace("ˌ", "")
    if any(symbol in VOWELS for symbol in sounds) or PRIMARY in sounds or "ˌ" in sounds:
        assert found.count(PRIMARY) == 1


def test_stress_stands_where_it_can() -> None:
    """On the first strong one, else the first half strong, else the first vowel that is not weak."""
    assert stressed("kˈæTəɡˈOɹi") == "kˈæTəɡˌOɹi"
    assert stressed("kˌæT") == "kˈæT"
    assert stressed("əbWt") == "əbˈWt"
    assert stressed("ðə") == "ðˈə"
    assert stressed("pst") == "pst"


def test_what_is_guessed_is_the_same_each_time_and_bounded(tmp_path: Path) -> None:
    """A chunk a letter; letters that it does not know are passed over."""
    write_guesses(tmp_path / "guesses.npz")
    guesser = Guesser.load(tmp_path / "guesses.npz")
    for word in ("a", "zelensky", "x" * 64):
        assert guesser(word) == guesser(word)
        assert set(guesser(word)) <= SYMBOLS and len(guesser(word)) <= 2 * len(word) + 1
    assert guesser("") == guesser("é7-") == ""
    assert guesser("aé7b") == guesser("ab")


@pytest.mark.parametrize("damage", ["missing", "text", "an array less", "another shape"])
def test_a_damaged_file_is_refused_by_name(damage: str, tmp_path: Path) -> None:
    """In one sentence, when it is loaded."""
    path = tmp_path / "guesses.npz"
    if damage != "missing":
        write_guesses(path)
    if damage == "text":
        path.write_text("no archive")
    elif damage != "missing":
        arrays = dict(np.load(path))
        if damage == "an array less":
            del arrays["out.bias"]
        else:
            arrays["saying.weight_hh_l0"] = arrays["saying.weight_hh_l0"][:, :-1]
        np.savez(path, **arrays)
    with pytest.raises(ManifestError, match=r"guesses\.npz: the model that guesses"):
        Guesser.load(path)
