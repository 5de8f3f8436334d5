"""Pronunciations: the net against a plain one, what becomes of words, files that are none."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.lexicon import Lexicon
from engines.manifest import ManifestError
from streaming import pronunciation
from streaming.pronunciation import Pronunciation
from tests.pronunciations import ALPHABET, CLASSES, LETTERS, SLOTS, Arrays, arrays_of, spelling, stored


def plainly(arrays: Arrays, word: str) -> list[int]:
    """The net, a number at a time."""
    known = [LETTERS.index(letter) + 1 for letter in word.lower() if letter in LETTERS]
    if not known:
        return []
    values = {name: array.astype(float).tolist() for name, array in arrays.items() if name not in ("letters", "names")}
    y = [values["embedding"][place] for place in [0, *known, len(LETTERS) + 1]]
    i = 0
    while f"convolution.{i}.weight" in values:
        weight, bias = values[f"convolution.{i}.weight"], values[f"convolution.{i}.bias"]
        half = len(weight[0][0]) // 2
        found = [
            [
                max(
                    0.0,
                    bias[o]
                    + sum(
                        weight[o][c][k] * y[at + k - half][c]
                        for c in range(len(y[0]))
                        for k in range(2 * half + 1)
                        if 0 <= at + k - half < len(y)
                    ),
                )
                for o in range(len(weight))
            ]
            for at in range(len(y))
        ]
        y = found if i == 0 else [[a + b for a, b in zip(p, q, strict=True)] for p, q in zip(y, found, strict=True)]
        i += 1
    phones, last = list[int](), -1
    for place in y:
        logits = [b + sum(w * x for w, x in zip(row, place, strict=True)) for row, b in zip(
            values["out.weight"], values["out.bias"], strict=True)]  # fmt: skip
        for slot in range(SLOTS):
            scores = logits[slot * (CLASSES + 1) : (slot + 1) * (CLASSES + 1)]
            best = scores.index(max(scores))
            if best != last and best != CLASSES:
                phones.append(best)
            last = best
    return phones


@given(st.integers(0, 5), st.lists(st.sampled_from([3, 5, 1, 7]), max_size=2), st.text(LETTERS + "XxÉ1 ", max_size=14))
def test_the_net_says_what_a_plain_one_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, more: list[int], word: str
) -> None:
    arrays = arrays_of(seed, (3, *more))
    net = Pronunciation.load(stored(tmp_path_factory.mktemp("net"), arrays), CLASSES)
    assert list(net.of([word])) == plainly(arrays, word)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Pronunciation:
    return Pronunciation.load(stored(tmp_path_factory.mktemp("net"), arrays_of(3)), CLASSES)


@given(st.lists(st.text(max_size=20), max_size=6))
def test_a_text_is_spoken_word_by_word(net: Pronunciation, words: list[str]) -> None:
    """Whatever the words are, each as it is alone."""
    spoken = net.of(words)
    assert spoken == sum((net.of([word]) for word in words), ())
    assert all(0 <= phone < CLASSES for phone in spoken)


def test_words_differ_and_only_their_letters_count(net: Pronunciation) -> None:
    spoken = {word: net.of([word]) for word in ("tack", "ace", "bend", "dab", "neat", "cab", "deck", "kent")}
    assert len(set(spoken.values())) > 4 and all(spoken.values())
    assert net.of(["T.A-c K!", "xyz", "", "42"]) == spoken["tack"]
    assert net.names == ("p0", "p1", "p2", "p3", "p4")


def test_a_doubled_phone_stays_two(tmp_path: Path) -> None:
    """Where the net keeps a silent slot between them."""
    spelled = Pronunciation.load(stored(tmp_path, spelling()), len(ALPHABET)).of(["Cattle", "isn't", "so", "on"])
    assert "".join(ALPHABET[phone] for phone in spelled) == "cattleisn'tsoon"


def test_a_word_is_computed_once_while_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound holds, and the word not asked for the longest goes."""
    monkeypatch.setattr(pronunciation, "WORDS", 2)
    spell, computed = Pronunciation._spell, list[str]()  # pyright: ignore[reportPrivateUsage]

    def noted(self: Pronunciation, word: str) -> tuple[int, ...]:
        computed.append(word)
        return spell(self, word)

    monkeypatch.setattr(Pronunciation, "_spell", noted)
    net = Pronunciation.load(stored(tmp_path, arrays_of()), CLASSES)
    net.of(["ant", "bat", "Ant", "a-n-t"])
    assert computed == ["ant", "bat"]
    net.of(["can", "ant", "bat"])
    assert computed == ["ant", "bat", "can", "bat"]


def test_threads_hear_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pronunciation, "WORDS", 3)
    net = Pronunciation.load(stored(tmp_path, arrays_of()), CLASSES)
    words = [a + b + c for a in "abcde" for b in "knt" for c in "ace"]
    alone = [net.of([word]) for word in words]
    found: dict[int, list[tuple[int, ...]]] = {}

    def ask(i: int) -> None:
        found[i] = [net.of([word]) for word in [*words[i:], *words[:i]]]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[i] == [*alone[i:], *alone[:i]] for i in range(8))


def without(name: str) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.__delitem__(name)


def having(name: str, value: object) -> Callable[[Arrays], None]:
    return lambda arrays: arrays.__setitem__(name, np.asarray(value))


def half(*shape: int) -> npt.NDArray[np.float16]:
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without("letters"), "letters: missing"),
        (without("names"), "names: missing"),
        (without("embedding"), "embedding: missing"),
        (without("convolution.0.weight"), r"convolution\.0\.weight: missing"),
        (without("convolution.1.weight"), r"convolution\.1\.bias: unknown"),
        (without("convolution.2.bias"), r"convolution\.2\.bias: missing"),
        (without("out.weight"), r"out\.weight: missing"),
        (without("out.bias"), r"out\.bias: missing"),
        (having("letters", ["a", "b"]), "letters: strings of 0"),
        (having("letters", b"abc"), "letters: strings of 0"),
        (having("letters", ""), "letters: each letter once"),
        (having("letters", "abca"), "letters: each letter once"),
        (having("letters", "abc"), r"embedding: float16 or float32 \[5, n\] expected, found float16 \(11, 4\)"),
        (having("names", ["p"] * 4), "names: 4 phones, the head has 5"),
        (having("names", np.arange(5)), "names: strings of 1"),
        (having("names", np.array([None] * 5)), "names: cannot be read"),
        (having("embedding", half(11)), "embedding: float16"),
        (having("embedding", half(11, 0)), "embedding: float16"),
        (having("embedding", np.zeros((11, 4))), "embedding: .* found float64"),
        (having("embedding", np.full((11, 4), np.nan, np.float16)), "embedding: not all numbers are finite"),
        (having("convolution.0.weight", half(6, 4, 2)), r"convolution\.0\.weight: odd width"),
        (having("convolution.0.weight", half(6, 3, 3)), r"convolution\.0\.weight: .*\[n, 4, n\]"),
        (having("convolution.0.bias", half(5)), r"convolution\.0\.bias: .*\[6\]"),
        (having("convolution.1.weight", half(6, 4, 3)), r"convolution\.1\.weight: .*\[6, 6, n\]"),
        (having("convolution.4.weight", half(6, 6, 3)), r"convolution\.4\.weight: unknown"),
        (having("out.weight", half(11, 6)), r"out\.weight: 11 rows, no multiple of 6"),
        (having("out.weight", half(0, 6)), r"out\.weight: float16"),
        (having("out.weight", half(12, 5)), r"out\.weight: .*\[n, 6\]"),
        (having("out.bias", half(13)), r"out\.bias: .*\[12\]"),
        (having("out.bias", np.zeros(12, np.int8)), r"out\.bias: .* found int8"),
        (having("vocabulary", 3), "vocabulary: unknown"),
        (having("words", ["at"]), r"words: uint8 \[bytes\] expected"),
        (having("words", np.zeros((2, 2), np.uint8)), r"words: uint8 \[bytes\] expected"),
        (having("words", np.full(9, 7, np.uint8)), "words: no LZMA data"),
    ],
)
def test_what_is_malformed_is_named(tmp_path: Path, spoil: Callable[[Arrays], None], message: str) -> None:
    arrays = arrays_of()
    spoil(arrays)
    path = stored(tmp_path, arrays)
    with pytest.raises(ManifestError, match=rf"pronunciation\.npz: {message}"):
        Pronunciation.load(path, CLASSES)


def test_the_words_are_read_where_they_are_told(tmp_path: Path) -> None:
    arrays = arrays_of()
    assert Pronunciation.load(stored(tmp_path, arrays), CLASSES).lexicon is None
    arrays["words"] = np.frombuffer(Lexicon(["at", "bat"]).pack(), np.uint8)
    lexicon = Pronunciation.load(stored(tmp_path, arrays), CLASSES).lexicon
    assert lexicon is not None and lexicon.words == ("at", "bat")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Cut off anywhere, a bit turned anywhere, or no archive at all: nothing but a ManifestError, or the same net."""
    whole = stored(tmp_path, arrays_of()).read_bytes()
    random = np.random.default_rng(0)
    turned = [bytearray(whole) for _ in range(150)]
    for each in turned:
        each[int(random.integers(len(whole)))] ^= 1 << int(random.integers(8))
    cuts = [whole[: int(size)] for size in random.integers(0, len(whole), 50)]
    path = tmp_path / "damaged.npz"
    refused, words = 0, ["tack", "ace", "bend"]
    expected = Pronunciation.load(stored(tmp_path, arrays_of()), CLASSES).of(words)
    for content in [b"", b"\x80\x04N.", b"no archive", *cuts, *turned]:
        path.write_bytes(content)
        try:
            found = Pronunciation.load(path, CLASSES).of(words)
        except ManifestError as error:
            refused += 1
            assert "damaged.npz: " in str(error)
        else:
            assert found == expected
    assert refused > 100
    np.save(tmp_path / "plain.npy", np.zeros(3))
    with pytest.raises(ManifestError, match=r"plain\.npy: no \.npz file"):
        Pronunciation.load(tmp_path / "plain.npy", CLASSES)
    with pytest.raises(FileNotFoundError):
        Pronunciation.load(tmp_path / "nowhere.npz", CLASSES)
