"""What the hearings of a clip together find: whose mean is best, and who is asked."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from engines.batching import Urgency
from streaming.doubt import LM, MARGIN, PER_TOKEN_LM, Draft, Read
from streaming.jury import BEHIND, POOL, RESPELT, confer
from streaming.respelling import UNKNOWN, Speller

Floats = npt.NDArray[np.float32]
Text = tuple[int, ...]


@dataclass
class Heard:
    """A hearing that has found texts and gives each text a score."""

    found: Sequence[Draft]
    scores: dict[Text, float]
    phones: Floats | None = None
    asked: list[Text] = field(default_factory=list[Text])

    def weigh(
        self, texts: Sequence[Text], urgency: Urgency
    ) -> tuple[npt.NDArray[np.float64], list[npt.NDArray[np.float64]]]:
        del urgency
        self.asked += texts
        scores = np.array([self.scores.get(text, -20.0) for text in texts])
        return scores, [np.full(len(text) + 1, score / 10) for text, score in zip(texts, scores, strict=True)]


class Spelling(Speller):
    """Proposes given texts, and does not know given ones."""

    def __init__(self, proposed: dict[Text, list[Text]], unknown: Sequence[Text]) -> None:
        self._proposed, self._unknown = proposed, unknown
        self.asked: list[Text] = []

    def respelt(self, draft: Draft, start: int, phones: Floats) -> list[Text]:
        assert start == 0 and len(phones)
        self.asked.append(tuple(draft.tokens))
        return self._proposed.get(tuple(draft.tokens), [])

    def unknown(self, tokens: Sequence[int]) -> int:
        return int(tuple(tokens) in self._unknown)


def found(*texts: tuple[Text, float]) -> list[Draft]:
    return [Draft(list(text), [1.0] * len(text), ended=True, score=score) for text, score in texts]


def verdict(jury: Sequence[Heard], speller: Speller | None = None, read: Read | None = None) -> Draft | None:
    return confer(jury, jury[0].found[0].tokens, 0, speller, read, Urgency.DUE)


A, B, C = (1, 2), (1, 3), (4,)
SOUND = np.zeros((3, 2), np.float32)


def test_the_best_mean_counts_not_the_best_chance() -> None:
    one = Heard(found((A, -1.0), (C, -8.0)), {A: -1.0, B: -3.0, C: -8.0})
    other = Heard(found((B, -2.0)), {A: -9.0, B: -2.0, C: -8.0})
    best = verdict([one, other])
    assert best is not None and tuple(best.tokens) == B and best.score == pytest.approx(-2.5) and best.ended
    assert set(one.asked) == {A, B, C} == set(other.asked)
    assert best.probabilities == pytest.approx([np.exp(-0.2)] * 2)  # the last hearing's


def test_one_text_alone_is_not_weighed() -> None:
    one, other = Heard(found((A, -1.0)), {}), Heard(found((A, -2.0)), {})
    assert verdict([one, other]) is None and not one.asked and not other.asked
    assert verdict([one], Spelling({}, [A])) is None


def test_spellings_stand_beside_the_texts_that_were_found() -> None:
    one = Heard(found((A, -1.0)), {A: -2.0, C: -3.0}, SOUND)
    speller = Spelling({A: [C]}, [A])
    best = verdict([one], speller)
    assert UNKNOWN > 1 and best is not None and tuple(best.tokens) == C
    best = verdict([Heard(found((A, -1.0)), {A: -2.0, C: -3.0}, SOUND)], Spelling({A: [C]}, []))
    assert best is not None and tuple(best.tokens) == A
    assert verdict([Heard(found((A, -1.0)), {}, None)], speller) is None  # nobody heard phones


def test_only_the_nearest_texts_are_weighed_and_respelt() -> None:
    texts = [((i, i), -BEHIND * i / POOL) for i in range(POOL + 5)]
    one = Heard(found(*texts[::2]), dict(texts), SOUND)
    other = Heard(found(*texts[1::2]), dict(texts), SOUND)
    speller = Spelling({}, [])
    assert verdict([one, other], speller) is not None
    assert other.asked == [text for text, _ in texts[:POOL]] == one.asked
    assert speller.asked == [text for text, _ in texts[:RESPELT]]


def test_who_is_far_behind_is_asked_about_no_further() -> None:
    far = -2.0 - BEHIND
    one = Heard(found((A, -1.0), (B, -2.0)), {A: -1.0, B: far})
    other = Heard(found((C, -1.0)), {A: far, B: -1.0, C: -1.0})
    third = Heard([], {A: -1.0, B: 30.0, C: far})
    one.scores[C] = -3.0
    best = verdict([one, other, third])
    assert other.asked == [A, C]  # B might have been the best, had it been weighed
    assert third.asked == [A, C]  # by the mean of two, not by the second alone
    assert best is not None and tuple(best.tokens) == A


def test_a_word_in_no_list_counts_in_who_is_behind() -> None:
    texts = {A: -1.0, B: -1.0 - BEHIND + UNKNOWN / 2}
    one, other = (Heard(found(*texts.items()), dict(texts)) for _ in range(2))
    assert verdict([one, other], Spelling({}, [B])) is not None
    assert one.asked == [A, B] and other.asked == [A]


def test_the_better_of_two_equal_texts_is_the_one_that_is_respelt() -> None:
    quiet = Heard(found((A, -5.0)), {A: -1.0}, SOUND)
    loud = Heard(found((A, -1.0), (B, -2.0)), {A: -1.0}, SOUND)
    speller = Spelling({}, [])
    verdict([quiet, loud], speller)
    assert speller.asked == [A, B]


def test_what_begins_in_another_language_is_not_compared() -> None:
    one = Heard(found(((7, 1), -1.0), ((7, 2), -2.0)), {(7, 1): -1.0, (7, 2): -0.5})
    other = Heard(found(((8, 1), -0.1)), {(7, 1): -1.0, (7, 2): -0.5})
    best = confer([one, other], (7, 1), 1, None, None, Urgency.DUE)
    assert best is not None and tuple(best.tokens) == (7, 2) and (8, 1) not in one.asked


def test_the_nearest_are_read_without_sound() -> None:
    seen: list[list[Text]] = []

    def read(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        seen.append([tuple(text) for text in texts])
        return np.array([-30.0 if tuple(text) == A else -1.0 for text in texts])

    one = Heard(found((A, -1.0), (B, -2.0), (C, -1.0 - MARGIN)), {A: -1.0, B: -2.0, C: -1.5 - MARGIN})
    best = verdict([one], None, read)
    assert seen == [[A, B]]
    assert best is not None and tuple(best.tokens) == B
    assert best.score == pytest.approx(-2.0 + LM * -1.0 + 2 * PER_TOKEN_LM)


def test_texts_that_no_hearing_can_have_heard_change_nothing() -> None:
    one = Heard(found((A, -1.0), (B, -1.0)), {A: -np.inf, B: -np.inf})
    assert verdict([one]) is None
