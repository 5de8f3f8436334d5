"""Loops are found, speech that repeats itself is not one."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.repetition import MAX_PERIOD, MIN_TOKENS, MIN_TURNS, Period, loop_period


def test_a_word_said_four_times_is_speech() -> None:
    """Short repetition happens."""
    assert loop_period([1, 2, 7, 7, 7, 7]) is None


def test_a_loop_is_found_with_its_start() -> None:
    """The period is the shortest, its start the first turn's."""
    assert loop_period([1, 2, 3, *[4, 5, 6] * 4]) == Period(3, 3)
    assert loop_period([9] + [7] * 8) == Period(1, 1)


@given(
    st.lists(st.integers(0, 50), max_size=10),
    st.lists(st.integers(100, 110), min_size=1, max_size=MAX_PERIOD, unique=True),
    st.integers(0, 5),
)
def test_every_loop_is_found(prefix: list[int], block: list[int], extra: int) -> None:
    """Any block repeated often enough, whatever stood before it."""
    turns = max(MIN_TURNS, -(-MIN_TOKENS // len(block))) + extra
    assert loop_period(prefix + block * turns) == Period(len(prefix), len(block))


@given(st.lists(st.integers(0, 3), max_size=60))
def test_what_is_found_is_a_loop(tokens: list[int]) -> None:
    """A reported period really repeats to the end."""
    found = loop_period(tokens)
    if found:
        turn = tokens[found.start : found.start + found.length]
        rest = tokens[found.start :]
        assert len(rest) >= max(MIN_TURNS * found.length, MIN_TOKENS)
        assert all(token == turn[i % found.length] for i, token in enumerate(rest))
