"""A user's own pronunciations: IPA, respellings, and what is said of a bad line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.sounds.lexicon import MOST_ASKED, MOST_BYTES, Lexicon
from codec.sounds.symbols import SYMBOLS
from engines.sessions import OptionError


@pytest.mark.parametrize(
    ("pronunciation", "sounds"),
    [
        ("hyoo-STUN", "hjustˈʌn"), ("HYOO-stun", "hjˈustən"), ("shih-VAWN", "ʃɪvˈɔn"),
        ("jif", "ʤˈɪf"), ("/dʒɪf/", "ʤˈɪf"),
        ("ʃɪˈvɔːn", "ʃɪvˈɔn"), ("/pin/", "pˈin"), ("[pɪn]", "pˈɪn"), ("WAW-ter", "wˈɔTəɹ"), ("ˈbɒtl̩", "bˈɑTᵊl"),
        ("juːˈneskəʊ", "junˈɛskO"), ("my ELF", "mˈI ˈɛlf"), ("keen-WAH", "kinwˈɑ"), ("çiː", "hˈi"), ("d͡ʒoʊ", "ʤˈO"),
        ("ˌæntɪˈbaɪ.ɒtɪk", "ˌæntɪbˈIɑTɪk"),
    ],
)  # fmt: skip
def test_ipa_and_respellings_become_sounds(pronunciation: str, sounds: str) -> None:
    """Capitals are the strong syllable; a stress of IPA stands before its syllable, ours before the vowel."""
    assert Lexicon.of({"Word": pronunciation}).sounds == {"word": sounds}


@given(st.text(max_size=20))
def test_any_text_is_taken_or_refused(pronunciation: str) -> None:
    """What is taken is of sounds only."""
    try:
        found = Lexicon.of({"word": pronunciation}).sounds["word"]
    except OptionError:
        return
    assert found and set(found) <= SYMBOLS | {" "}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"a": "h5"}, "lexicon: 'a': '5' is no letter of a respelling such as hyoo-STUN, nor IPA"),
        ({"a": "ʘa"}, "lexicon: 'a': 'ʘ' is no symbol of IPA that English has"),
        ({"a": ""}, "lexicon: 'a': the pronunciation is empty"),
        ({"a": 5}, "lexicon: 'a': its pronunciation must be a string"),
        ({"a": "st"}, "lexicon: 'a': 'st' has no vowel"),
        ({"a": "ah" * 200}, "lexicon: 'a': the pronunciation has 400 characters, the limit is 200"),
        ({"two words": "ah"}, "lexicon: 'two words': a word is up to 64 letters"),
        ({"": "ah"}, "lexicon: '': a word is"),
        ({f"w{'x' * i}": "ah" for i in range(MOST_ASKED + 1)}, f"lexicon: {MOST_ASKED + 1} words"),
    ],
)
def test_a_bad_word_is_refused_by_name(words: dict[str, object], told: str) -> None:
    """With the symbol, in one sentence."""
    with pytest.raises(OptionError) as refused:
        Lexicon.of(words)
    assert str(refused.value).startswith(told)


def test_a_file_has_a_word_a_line(tmp_path: Path) -> None:
    """White space between, comments, empty lines, a byte order mark."""
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeff# places\nHouston\thyoo-STUN  # Texas\n\n  GIF /dʒɪf/\n".encode())
    assert Lexicon.load(path).sounds == {"houston": "hjustˈʌn", "gif": "ʤˈɪf"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ok oh-KAY\nHouston hyoo-ST5N\n", "line 2, 'Houston': '5' is no letter of a respelling"),
        ("New York  noo-YAWK\n", "line 1, 'New': 'York' begins with a capital as a word does"),
        ("Houston\n", "line 1, 'Houston': a pronunciation must follow the word"),
        ("5x ah\n", "line 1, '5x': a word is up to 64 letters"),
        ("x" * (MOST_BYTES + 1), f"has more than {MOST_BYTES} bytes"),
    ],
)
def test_a_bad_line_is_refused_by_file_line_and_symbol(text: str, told: str, tmp_path: Path) -> None:
    """So that a person finds it."""
    path = tmp_path / "words.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OptionError) as refused:
        Lexicon.load(path)
    assert (
        str(refused.value).startswith("lexicon: ") and told in str(refused.value) and "words.txt" in str(refused.value)
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """Missing, or not of text."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    for name, told in (("none", "cannot be read: No such file"), ("bytes", "is no UTF-8 text")):
        with pytest.raises(OptionError, match=told):
            Lexicon.load(tmp_path / name)


def test_the_later_of_two_counts() -> None:
    """A request's own words come before the daemon's."""
    both = Lexicon.of({"a": "ah", "b": "bee"}) | Lexicon.of({"B": "boh"})
    assert both.sounds == {"a": "ˈɑ", "b": "bˈO"}
