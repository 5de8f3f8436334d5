"""Greedy decoding on made-up logits: choices, drafts, budgets, and telling loops from repetition."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.decoding import (
    BLOCK,
    LEAST,
    MAX_BANS,
    MAX_PERIOD,
    MIN_TOKENS,
    MIN_TURNS,
    OTHERS,
    TOKENS_EXTRA,
    TOKENS_PER_SECOND,
    Choice,
    Draft,
    Floats,
    agree,
    budget,
    choose,
    follow,
    inverse,
    loop,
)
from streaming.keyterms import NEXT, KeytermBias
from tests.lanes import alone, yielding

STOP = 9
"""Ends a text; the vocabulary is 0…9."""
NO_TERMS = KeytermBias([])


class Script:
    """A decoder that says the first of ``texts`` that begins with what was said. After each token the text's next one
    is likeliest, and the one after that second. It notes the rows that it is asked for."""

    def __init__(self, *texts: Sequence[int]) -> None:
        self._texts = texts
        self.rows: list[tuple[int, int]] = []
        self._said: list[int] = []

    def logits(self, said: Sequence[int]) -> Floats:
        """The logits that choose the token after ``said``: the next tokens of the first text that fits are
        likeliest."""
        found = np.full(10, -8.0, np.float32)
        nexts = [
            text[len(said)] for text in self._texts if list(text[: len(said)]) == list(said) and len(text) > len(said)
        ]
        for k, token in enumerate(dict.fromkeys([*nexts, STOP])):
            found[token] = 4.0 - k
        return found

    def follow(self, draft: Draft, **rest: int) -> None:
        """Call ``follow`` after the tokens that the draft has, the first of which is at position 100."""
        self._said = list(draft.tokens)

        def step(token: int, position: int) -> Floats:
            self.rows.append((token, position))
            del self._said[position - 100 :]
            self._said.append(token)
            return self.logits(self._said)

        kept, bans, limit = rest.get("kept", 0), rest.get("bans", 0), rest.get("limit", 100)
        steps = follow(
            draft,
            self.logits(draft.tokens),
            100 + len(draft.tokens),
            step=yielding(step),
            stop={STOP},
            bias=NO_TERMS,
            limit=limit,
            kept=kept,
            bans=bans,
            choices=True,
        )
        alone(steps)


def test_a_text_is_followed_to_its_end() -> None:
    """Decoding asks row by row, at the right positions, and gives a choice for each token and one for the end."""
    draft, script = Draft(), Script([3, 1, 4, 1, 5, STOP])
    script.follow(draft)
    assert draft.tokens == [3, 1, 4, 1, 5]
    assert (draft.ended, draft.looped) == (True, False)
    assert script.rows == [(3, 100), (1, 101), (4, 102), (1, 103), (5, 104)]
    assert len(draft.choices) == 6 and len(draft.probabilities) == 5
    for choice, probability in zip(draft.choices, draft.probabilities, strict=False):
        assert np.exp(choice.log) == pytest.approx(probability, rel=1e-5)


def test_a_draft_is_gone_on_with() -> None:
    draft, script = Draft([3, 1], [0.5, 0.25]), Script([3, 1, 4, STOP])
    script.follow(draft)
    assert draft.tokens == [3, 1, 4] and draft.probabilities[:2] == [0.5, 0.25]
    assert script.rows == [(4, 102)]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_ends_a_text_that_the_model_does_not(limit: int) -> None:
    draft = Draft()
    Script([1, 2, 3, 4, 5, 6, STOP]).follow(draft, limit=limit)
    assert draft.tokens == [1, 2, 3, 4, 5, 6][:limit] and not draft.ended


def test_an_interim_stops_after_the_first_turn_of_a_loop() -> None:
    """An interim ends before a loop's second turn, but keeps all committed tokens."""
    draft, script = Draft(), Script([1, *[2, 3] * 20])
    script.follow(draft)
    assert draft.tokens == [1, 2, 3] and draft.looped and not draft.ended
    assert len(draft.choices) == len(draft.probabilities) == 3
    draft = Draft([1, 2, 3, 2, 3], [1.0] * 5)
    script.follow(draft, kept=5)
    assert draft.tokens == [1, 2, 3, 2, 3]


def test_a_final_hears_what_was_said_behind_a_loop() -> None:
    """A final goes on after a loop's first turn with another token than before, and evaluates the rows after it
    again."""
    draft, script = Draft(), Script([1, *[2, 3] * 20], [1, 2, 3, 7, 8, STOP])
    script.follow(draft, bans=MAX_BANS)
    assert draft.tokens == [1, 2, 3, 7, 8] and draft.ended and draft.looped
    assert script.rows[-3:] == [(3, 102), (7, 103), (8, 104)]


def test_a_final_that_only_loops_is_taken_as_it_stands() -> None:
    draft, script = Draft(), Script([1, *[2, 3] * 20], [1, 2, 3, *[4, 5] * 20], [1, 2, 3, 4, 5, 6, STOP])
    script.follow(draft, bans=1)
    assert draft.tokens == [1, 2, 3, 4, 5] and draft.looped and not draft.ended


def test_a_cut_keeps_the_beginning() -> None:
    draft = Draft([5, 6, 7], [0.9, 0.4, 0.8], [Choice(-0.1), Choice(-0.9), Choice(-0.2), Choice(-0.3)])
    draft.cut(2)
    assert (draft.tokens, draft.probabilities) == ([5, 6], [0.9, 0.4])
    assert [choice.log for choice in draft.choices] == [-0.1, -0.9]


@given(st.lists(st.integers(0, 4), max_size=50), st.lists(st.integers(0, 4), max_size=50), st.integers(0, 3), st.data())
def test_a_draft_is_taken_as_far_as_the_decoder_says_it(
    said: list[int], guess: list[int], kept: int, data: st.DataObject
) -> None:
    """A draft is taken up to its first wrong token, and decoding goes on from there as it would alone. Its rows are
    evaluated once and in blocks, none after the one in which it is wrong."""
    guess = [*said[: data.draw(st.integers(0, 50))], *guess]
    text, before = [*said, STOP], [0] * kept
    script, asked = Script([0] * kept + text), list[tuple[int, int]]()
    known = min(BLOCK, len(guess))

    def read(tokens: Sequence[int], position: int) -> Floats:
        asked.append((position - 100 - kept, len(tokens)))
        first = position - 100 - kept
        assert tokens == guess[first : first + len(tokens)]
        return np.stack([script.logits([*before, *guess[: first + i + 1]]) for i in range(len(tokens))])

    logits = np.stack([script.logits([*before, *guess[:i]]) for i in range(known + 1)])
    draft, unaided = Draft(list(before), [1.0] * kept), Draft(list(before), [1.0] * kept)
    row, position = alone(agree(draft, guess, logits, 100 + kept + known, read=yielding(read), bias=NO_TERMS))
    same = next((i for i, (a, b) in enumerate(zip(guess, text, strict=False)) if a != b), min(len(guess), len(text)))
    assert draft.tokens == [*before, *guess[:same]] and len(draft.probabilities) == kept + same
    assert position == 100 + kept + same
    np.testing.assert_array_equal(row, script.logits(draft.tokens))
    blocks = range(known, max(known, same), BLOCK)
    assert asked == [(begin, min(BLOCK, len(guess) - begin)) for begin in blocks]
    script.follow(draft, kept=kept)
    script.follow(unaided, kept=kept)
    assert draft.tokens == unaided.tokens


def test_a_long_draft_is_read_in_blocks() -> None:
    """The last block has what is left; after the block in which the draft is wrong none is read."""
    for wrong, blocks in ((None, [BLOCK, 5]), (BLOCK + 3, [BLOCK]), (BLOCK - 1, []), (2 * BLOCK + 2, [BLOCK, 5])):
        guess = [i % 5 for i in range(2 * BLOCK + 5)]
        script, asked = Script([*guess, STOP] if wrong is None else [*guess[:wrong], 8, STOP]), list[int]()

        def read(tokens: Sequence[int], position: int) -> Floats:
            asked.append(len(tokens))
            return np.stack([script.logits(guess[: position + i + 1]) for i in range(len(tokens))])

        logits = np.stack([script.logits(guess[:i]) for i in range(BLOCK + 1)])
        draft = Draft()
        alone(agree(draft, guess, logits, BLOCK, read=yielding(read), bias=NO_TERMS))
        assert (len(draft.tokens), asked) == (len(guess) if wrong is None else wrong, blocks)


def test_a_term_that_was_begun_is_accepted_by_its_bonus() -> None:
    """Each row of a draft gets the bonus for the tokens before it."""
    rows = np.zeros((3, 10), np.float32)
    rows[0, 3], rows[1, 5] = 1.0, NEXT / 2
    bias = KeytermBias([[[3, 4]]])
    expected = rows[2].copy()
    bias.apply(expected, [3, 4])
    for terms, said in ((NO_TERMS, [3]), (bias, [3, 4])):
        draft = Draft()
        row, _ = alone(agree(draft, [3, 4], rows.copy(), 102, read=yielding(lambda *_: rows), bias=terms))
        assert draft.tokens == said
    np.testing.assert_array_equal(row, expected)


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
    logits = np.array([1.0, -np.inf, 0.5, 2.0], np.float32)
    assert [token for token, _ in choose(logits, 3).others] == [0, 2]
    assert inverse(logits, 1) == np.inf


def test_the_budget_is_bounded_by_the_audio_and_the_cache() -> None:
    assert budget(0, 16_000, 500) == TOKENS_EXTRA
    assert budget(160_000, 16_000, 500) == 10 * TOKENS_PER_SECOND + TOKENS_EXTRA
    assert budget(160_000, 16_000, 30) == 30


def test_a_word_said_four_times_is_speech() -> None:
    """A word that is said four times is no loop."""
    assert loop([1, 2, 7, 7, 7, 7]) == 0


def test_a_loop_is_found_with_its_second_turn() -> None:
    """The index is that of the second turn of the shortest block that repeats."""
    assert loop([1, 2, 3, *[4, 5, 6] * 4]) == 6
    assert loop([9] + [7] * 8) == 2


@given(
    st.lists(st.integers(0, 50), max_size=10),
    st.lists(st.integers(100, 110), min_size=1, max_size=MAX_PERIOD, unique=True),
    st.integers(0, 5),
)
def test_every_loop_is_found(before: list[int], block: list[int], extra: int) -> None:
    """Any block that repeats often enough is found, whatever stands before it."""
    turns = max(MIN_TURNS, -(-MIN_TOKENS // len(block))) + extra
    assert loop(before + block * turns) == len(before) + len(block)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_what_is_found_is_a_loop(tokens: list[int]) -> None:
    """Where a loop is reported, a block does repeat from its first turn to the end."""
    second = loop(tokens)
    if not second:
        return
    periods = [
        length
        for length in range(1, min(second, MAX_PERIOD) + 1)
        if all(tokens[i] == tokens[i - length] for i in range(second, len(tokens)))
    ]
    assert periods
    assert len(tokens) - second + periods[0] >= max(MIN_TURNS * periods[0], MIN_TOKENS)
