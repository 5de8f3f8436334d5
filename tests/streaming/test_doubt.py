"""Second thoughts: what is doubted, in which order, and which text is kept."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.manifest import Decoder
from streaming.doubt import (
    CONTENDERS,
    CTC,
    CUT,
    LEAST,
    LM,
    MARGIN,
    OTHERS,
    PER_TOKEN,
    PER_TOKEN_LM,
    READ_ROWS,
    Agenda,
    Choice,
    Draft,
    Read,
    affordable,
    best_of,
    choose,
    contenders,
)
from streaming.opinions import by_tokens

logarithms = st.floats(-6, -1e-6)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=40, unique=True), st.data())
def test_a_choice_tells_its_probability_and_the_likeliest_others(values: list[float], data: st.DataObject) -> None:
    logits = np.array(values, np.float32)
    token = data.draw(st.integers(0, len(values) - 1))
    choice = choose(logits, token)
    whole = np.log(np.exp(logits.astype(np.float64)).sum())
    assert choice.log == pytest.approx(float(logits[token]) - whole, abs=1e-3)
    assert len(choice.others) <= OTHERS
    others = [other for other, _ in choice.others]
    assert token not in others and len(set(others)) == len(others)
    logs = [log for _, log in choice.others]
    assert logs == sorted(logs, reverse=True)
    for other, log in choice.others:
        assert log == pytest.approx(float(logits[other]) - whole, abs=1e-3) and log >= LEAST - 1e-3
    for i in set(range(len(values))) - {token, *others}:
        full = len(others) == OTHERS and logits[i] <= min(logits[other] for other in others)
        assert full or logits[i] - whole < LEAST + 1e-3


def test_a_banned_token_is_no_other() -> None:
    choice = choose(np.array([1.0, -np.inf, 0.5, 2.0], np.float32), 3)
    assert [token for token, _ in choice.others] == [0, 2]


def drafts_of(logs: list[tuple[float, float]]) -> Draft:
    choices = [Choice(a, ((7, b),)) for a, b in logs]
    return Draft([5] * (len(logs) - 1), [0.5] * (len(logs) - 1), choices, ended=True)


@given(st.lists(st.lists(st.tuples(logarithms, logarithms), min_size=1, max_size=12), min_size=1, max_size=4))
def test_doubts_come_by_what_they_promise(texts: list[list[tuple[float, float]]]) -> None:
    agenda, drafts = Agenda(), [drafts_of(logs) for logs in texts]
    for draft in drafts:
        agenda.add(draft, 0)
    promised = list[float]()
    while (doubt := agenda.next()) is not None:
        promised.append(doubt.draft.total - doubt.draft.choices[doubt.position].log + doubt.log)
    best = max(draft.total for draft in drafts)
    every = sorted((d.total - c.log + c.others[0][1] for d in drafts for c in d.choices), reverse=True)
    assert promised == pytest.approx([each for each in every if each >= best - CUT])


def test_nothing_before_the_start_is_doubted() -> None:
    agenda = Agenda()
    agenda.add(drafts_of([(-1.0, -0.5)] * 4), 3)
    doubt = agenda.next()
    assert doubt is not None and doubt.position == 3 and agenda.next() is None


def test_a_doubt_begins_with_what_stood_before_it() -> None:
    draft = Draft([5, 6, 7], [0.9, 0.4, 0.8], [Choice(-0.1), Choice(-0.9, ((2, -1.0),)), Choice(-0.2), Choice(-0.3)])
    agenda = Agenda()
    agenda.add(draft, 0)
    doubt = agenda.next()
    assert doubt is not None and (doubt.position, doubt.token) == (1, 2)
    begun = doubt.begun()
    assert begun.tokens == [5] and begun.probabilities == [0.9] and not begun.ended
    assert [c.log for c in begun.choices] == [-0.1, -1.0]
    assert draft.tokens == [5, 6, 7] and len(draft.choices) == 4


def scored(tokens: list[int], log: float) -> Draft:
    return Draft(tokens, [0.5] * len(tokens), [Choice(log - PER_TOKEN * len(tokens))], ended=True)


def test_the_ctc_head_decides_between_texts_that_the_decoder_finds_alike() -> None:
    heard = np.log(np.array([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]], np.float32))
    said, other = scored([0], -2.0), scored([1], -1.9)
    assert best_of([said, other]) is other
    assert best_of([said, other], [by_tokens(heard, 2, 0)]) is said
    sure = scored([1], -2.0 + CTC * 10)
    assert best_of([said, sure], [by_tokens(heard, 2, 0)]) is sure


def test_the_ctc_head_reads_the_text_alone() -> None:
    """Tokens before ``start`` name the language; the head has never seen them."""
    heard = np.log(np.array([[0.9, 0.05, 0.05], [0.05, 0.05, 0.9]], np.float32))
    said, other = scored([1, 0], -2.0), scored([1, 1], -1.9)
    assert best_of([said, other], [by_tokens(heard, 2, 1)]) is said


def test_texts_that_no_path_spells_are_left_to_the_decoder() -> None:
    heard = np.log(np.full((1, 3), 1 / 3, np.float32))
    drafts = [scored([0, 0], -2.0), better := scored([1, 1], -1.0)]
    assert best_of(drafts, [by_tokens(heard, 2, 0)]) is better and better.score == better.total


def reading(logs: dict[tuple[int, ...], float]) -> tuple[list[tuple[int, ...]], Read]:
    """A language model that knows these texts, and the list of those it is asked about."""
    asked: list[tuple[int, ...]] = []

    def read(texts: Sequence[Sequence[int]]) -> npt.NDArray[np.float64]:
        asked.extend(tuple(text) for text in texts)
        return np.array([logs[tuple(text)] for text in texts])

    return asked, read


def test_what_people_say_decides_between_texts_that_sound_alike() -> None:
    said, other = scored([0, 1], -2.0), scored([2], -1.9)
    assert best_of([said, other]) is other
    asked, read = reading({(0, 1): -4.0, (2,): -9.0})
    assert best_of([said, other], read=read) is said
    assert asked == [(0, 1), (2,)]
    assert said.score == pytest.approx(-2.0 + LM * -4.0 + PER_TOKEN_LM * 2)
    assert other.score == pytest.approx(-1.9 + LM * -9.0 + PER_TOKEN_LM)


def test_equal_texts_go_to_the_first_where_they_are_read_too() -> None:
    first, second = scored([0], -2.0), scored([1], -2.0)
    _, read = reading({(0,): -3.0, (1,): -3.0})
    assert best_of([first, second], read=read) is first


def test_a_text_too_far_behind_is_not_read_and_not_kept() -> None:
    near, far = scored([0], -2.0), scored([1], -2.1 - MARGIN)
    asked, read = reading({(0,): -1000.0})
    assert best_of([far, near], read=read) is near
    assert asked == [(0,)] and far.score is None


@given(st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=40), st.floats(-12, 0)), min_size=1, max_size=30))
def test_the_best_are_read_as_far_as_rows_go(found: list[tuple[list[int], float]]) -> None:
    drafts = [scored(tokens * 4, log) for tokens, log in found]
    scores = np.array([draft.total for draft in drafts])
    chosen = contenders(drafts, scores)
    best = int(scores.argmax())
    assert best in chosen and chosen == sorted(set(chosen)) and len(chosen) <= CONTENDERS
    assert min(scores[chosen]) >= scores[best] - MARGIN

    def rows(places: Sequence[int]) -> int:
        return len({tuple(drafts[i].tokens[:k]) for i in places for k in range(1, len(drafts[i].tokens) + 1)})

    assert len(chosen) == 1 or rows(chosen) <= READ_ROWS
    left = [i for i in range(len(drafts)) if i not in chosen]
    if left:
        next_best = max(left, key=lambda i: (scores[i], -i))
        assert scores[next_best] <= min(scores[chosen])
        full = len(chosen) == CONTENDERS or rows([*chosen, next_best]) > READ_ROWS
        assert full or scores[next_best] < scores[best] - MARGIN


@pytest.mark.parametrize(("layers", "width", "expected"), [(4, 320, True), (28, 1024, False)])
def test_dimensions_decide_whether_finals_doubt(layers: int, width: int, expected: bool) -> None:
    """The embedded decoder's and the released 0.6B's, whatever the precision."""
    decoder = Decoder("f", "f32", layers, width, heads=6, kv_heads=2, head_dim=64, vocabulary=768, context=4096)
    assert affordable(decoder) is expected
