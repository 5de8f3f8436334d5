"""How words sound: learnt from examples, said for words that nobody wrote, stored for a runtime without torch."""

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from engines.lexicon import Lexicon
from training.asr.lexicon import lexicon
from training.asr.pronunciation import LETTERS, SLOTS, Speller, learn, save, spelled

PHONES = 27
CONSONANTS, VOWELS = "bcdfgklmnprst", "aeiou"


def said(word: str) -> list[int]:
    """A toy orthography: a letter a phone, but "ph" is said like "f" and a final "e" is silent."""
    out: list[int] = []
    for i, letter in enumerate(word):
        if letter == "h" and word[i - 1 : i] == "p" or letter == "e" and i == len(word) - 1:
            continue
        out.append(LETTERS.index("f" if word[i : i + 2] == "ph" else letter))
    return [p for i, p in enumerate(out) if i == 0 or p != out[i - 1]]


def words(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    found: set[str] = set()
    while len(found) < count:
        found.add("".join(draw.choice(["ph", *CONSONANTS]) + draw.choice(VOWELS) for _ in range(draw.randint(1, 4))))
    return sorted(found)


@pytest.fixture(scope="module")
def speller() -> tuple[Speller, tuple[float, float]]:
    known = words(1500, 1)
    return learn({w: said(w) for w in known}, dict.fromkeys(known, 3), PHONES, 60)


def test_words_that_were_not_learnt_are_said_right(speller: tuple[Speller, tuple[float, float]]) -> None:
    net, (unseen, running) = speller
    assert unseen > 0.9 and running > 0.95
    new = [w for w in words(2200, 2) if w not in set(words(1500, 1))][:300]
    right = sum(s == said(w) for w, s in zip(new, net.say(new), strict=True))
    assert right > 0.9 * len(new)


def test_neighbours_in_a_batch_change_nothing(speller: tuple[Speller, tuple[float, float]]) -> None:
    net, _ = speller
    together = net.say(["ta", "phonograpara", "be", "'"])
    assert together == [net.say([w])[0] for w in ("ta", "phonograpara", "be", "'")]


def test_the_file_holds_the_net_in_half_precision(speller: tuple[Speller, tuple[float, float]], tmp_path: Path) -> None:
    net, _ = speller
    save(net, [f"p{i}" for i in range(PHONES)], ["at", "atom"], tmp_path / "out" / "pronunciation.npz")
    with np.load(tmp_path / "out" / "pronunciation.npz", allow_pickle=False) as data:
        assert str(data["letters"]) == LETTERS and len(data["names"]) == PHONES
        assert data["embedding"].dtype == np.float16 and data["embedding"].shape[0] == len(LETTERS) + 2
        assert data["out.weight"].shape[0] == SLOTS * (PHONES + 1)
        assert Lexicon.unpack(data["words"].tobytes()).words == ("at", "atom")
        again = Speller(PHONES)
        state = {
            ("embedding.weight" if k == "embedding" else k): data[k]
            for k in data.files
            if k not in ("letters", "names", "words")
        }
        again.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in state.items()})
    assert again.say(["phona", "tube"]) == net.say(["phona", "tube"])


def test_the_lexicon_has_the_words_that_occur_more_than_once() -> None:
    assert lexicon({"b": 2, "a": 5, "once": 1, "4": 9, "don't": 3, "'": 4}) == ["a", "b", "don't"]


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(ValueError, match="no words"):
        learn({}, {}, PHONES, 1)


def test_letters_stand_between_start_and_end() -> None:
    ids, count = spelled(["ab", "a-b'c"])
    assert ids.tolist() == [[0, 1, 2, 28, 0, 0], [0, 1, 2, 27, 3, 28]] and count.tolist() == [4, 6]
