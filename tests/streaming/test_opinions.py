"""What the heads think of texts: their numbers, and what they may not decide."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.doubt import CTC, MARGIN, PER_PHONE, PER_TOKEN, PER_TOKEN_CTC, PHONES, Choice, Draft, best_of
from streaming.likelihood import log_likelihoods
from streaming.opinions import by_phones, by_tokens
from streaming.pronunciation import Pronunciation
from tests.pronunciations import ALPHABET, spelling, stored

WORDS = ("their", "there", "hair", "a", "bat", "")
"""The text of token i is word i; see SPOKEN."""
SPOKEN = ((0, 1), (0, 1), (2, 1), (1,), (3, 1, 3), ())
BLANK = 4


def spoken(tokens: Sequence[int]) -> tuple[int, ...]:
    return tuple(phone for token in tokens for phone in SPOKEN[token])


def scored(tokens: Sequence[int], score: float) -> Draft:
    return Draft(list(tokens), [0.5] * len(tokens), [Choice(score - PER_TOKEN * len(tokens))], ended=True)


def heard(frames: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.log(np.random.default_rng(seed).dirichlet(np.ones(BLANK + 1), frames)).astype(np.float32)


def sounding(*phones: int, other: float = 0.01) -> npt.NDArray[np.float32]:
    """A frame a phone, each nearly sure; ``other``: what is left for each of the rest."""
    probabilities = np.full((len(phones), BLANK + 1), other)
    probabilities[np.arange(len(phones)), phones] = 1 - BLANK * other
    return np.log(probabilities).astype(np.float32)


@given(st.integers(0, 9), st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=5), min_size=1, max_size=8))
def test_the_phone_head_adds_its_likelihood_and_a_little_a_phone(seed: int, texts: list[list[int]]) -> None:
    rows = heard(8, seed)
    found = by_phones(rows, spoken)([scored(text, -1.0) for text in texts])
    assert found.shape == (len(texts),)
    for text, each in zip(texts, found, strict=True):
        (alone,) = log_likelihoods(rows, [spoken(text)], BLANK)
        assert each == pytest.approx(PHONES * alone + PER_PHONE * len(spoken(text)))


def test_what_sounds_alike_is_alike_to_the_phone_head() -> None:
    their, there, hair = (scored([token], -1.0) for token in range(3))
    opinion = by_phones(sounding(0, BLANK, 1), spoken)
    scores = opinion([their, there, hair])
    assert scores[0] == scores[1] > scores[2]
    assert best_of([hair, there, their], [opinion]) is there  # the first of equals


def test_the_phone_head_decides_between_texts_that_decoder_and_ctc_head_find_alike() -> None:
    tokens = np.log(np.full((4, 7), 1 / 7, np.float32))
    said, other = scored([2], -2.0), scored([0], -1.9)
    ctc = by_tokens(tokens, 6, 0)
    assert best_of([said, other], [ctc]) is other
    phones = by_phones(sounding(2, BLANK, 1), spoken)
    assert best_of([said, other], [ctc, phones]) is said
    (likely,), (loud,) = log_likelihoods(tokens, [[2]], 6), log_likelihoods(sounding(2, BLANK, 1), [(2, 1)], BLANK)
    assert said.score == pytest.approx(-2.0 + CTC * likely + PER_TOKEN_CTC + PHONES * loud + PER_PHONE * 2)


def test_what_is_read_without_sound_is_chosen_with_the_phone_head() -> None:
    """A text that the head finds far behind is not read."""
    near, far = scored([2], -2.0), scored([0] * 3, -1.9)
    asked: list[list[int]] = []

    def read(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        asked.extend(list(text) for text in texts)
        return np.zeros(len(texts))

    rows = sounding(*[BLANK] * 40, 2, BLANK, 1, other=1e-12)
    assert best_of([near, far], read=read) is far and asked == [[2], [0] * 3]
    asked.clear()
    assert best_of([near, far], [by_phones(rows, spoken)], read) is near and asked == [[2]]


def test_a_text_too_long_for_the_frames_cannot_be_the_best() -> None:
    fits, longer = scored([3], -9.0), scored([4], -1.0)
    assert best_of([longer, fits], [by_phones(heard(2), spoken)]) is fits
    assert longer.score == -math.inf and fits.score is not None and math.isfinite(fits.score)


def test_frames_too_few_for_every_text_say_nothing() -> None:
    first, better = scored([4], -2.0), scored([4, 4], -1.0)
    assert best_of([first, better], [by_phones(heard(2), spoken)]) is better
    assert (first.score, better.score) == (first.total, better.total)


def test_heads_that_leave_no_text_together_leave_what_the_first_left() -> None:
    """The CTC head has rows for the one text only, the phone head would have it be the other."""
    short, loud = scored([3], -2.0), scored([3, 3], -1.0)
    frames = np.array(
        [[-np.inf, 0.0, -np.inf, -np.inf, -np.inf], [-np.inf, -np.inf, -np.inf, -np.inf, 0.0]], np.float32
    )
    tokens = by_tokens(heard(1), BLANK, 0)
    rows = np.concatenate([frames, frames])
    assert [math.isfinite(each) for each in tokens([short, loud])] == [True, False]
    phones = by_phones(rows, lambda tokens: (1,) * 2 * (len(tokens) - 1))
    assert [math.isfinite(each) for each in phones([short, loud])] == [False, True]
    assert best_of([loud, short], [tokens, phones]) is short
    assert best_of([loud, short], [phones, tokens]) is loud


def test_an_impossible_text_is_neither_read_nor_scored_as_a_number() -> None:
    drafts = [scored([3], -4.0 - MARGIN), scored([4], -1.0), scored([1], -3.0)]

    def read(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        assert [list(text) for text in texts] == [[1]]
        return np.zeros(1)

    assert best_of(drafts, [by_phones(sounding(0, 1), spoken)], read) is drafts[2]
    assert [draft.score is None for draft in drafts] == [True, True, False]


def test_an_opinion_takes_the_words_of_the_text(tmp_path: Path) -> None:
    """As decoding asks it: by the letters of the words."""
    net = Pronunciation.load(stored(tmp_path, spelling()), len(ALPHABET))
    texts = ["cat sat", "cats at", "dog"]
    rows = np.full((14, len(ALPHABET) + 1), -5.0, np.float32)
    rows[np.arange(14), [ALPHABET.index(c) if c else len(ALPHABET) for letter in "catsats" for c in (letter, "")]] = 0.0
    scores = by_phones(rows, lambda tokens: net.of(texts[tokens[0]].split()))([scored([i], 0.0) for i in range(3)])
    assert scores[0] == scores[1] > scores[2]
