"""A bounded set of sessions, and the sum of their counters."""

import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

import pytest

from codec.work import Work as Said
from engines.sessions import Busy, Counts, OptionError, Sessions
from streaming.work import Work as Heard


@dataclass(slots=True)
class Steps(Counts):
    """What a session of these tests counts."""

    steps: int = 0


class Walker:
    """The smallest session there can be."""

    def __init__(self, on_close: Callable[["Walker"], None]) -> None:
        self.work, self._on_close = Steps(), on_close

    def close(self) -> None:
        self._on_close(self)


@pytest.fixture
def sessions() -> Sessions[Walker, Steps]:
    """Room for three sessions."""
    return Sessions[Walker, Steps](3, Steps)


def test_one_too_many_is_refused_until_another_closes(sessions: Sessions[Walker, Steps]) -> None:
    walkers = [sessions.open(Walker) for _ in range(3)]
    with pytest.raises(Busy, match="all 3 sessions are taken"):
        sessions.open(Walker)
    walkers[0].close()
    sessions.open(Walker)
    assert sessions.live == 3


def test_work_outlives_its_session_and_counts_once(sessions: Sessions[Walker, Steps]) -> None:
    """The sum is the same whether sessions are open, closed or closed twice."""
    first, second = sessions.open(Walker), sessions.open(Walker)
    first.work.steps, second.work.steps = 3, 40
    assert sessions.work == Steps(43)
    first.close()
    first.close()
    assert (sessions.work, sessions.live) == (Steps(43), 1)
    sessions.close()
    sessions.close()
    assert (sessions.work, sessions.live) == (Steps(43), 0)


def test_a_session_that_cannot_be_made_takes_no_place(sessions: Sessions[Walker, Steps]) -> None:
    def fail(on_close: Callable[[Walker], None]) -> Walker:
        raise OptionError("pace", "too fast")

    with pytest.raises(OptionError, match="^pace: too fast$") as caught:
        sessions.open(fail)
    assert (caught.value.field, caught.value.reason, sessions.live) == ("pace", "too fast", 0)


def test_places_hold_when_many_threads_want_them(sessions: Sessions[Walker, Steps]) -> None:
    """Never more than three sessions are open, and no count is lost, with many threads."""
    refused, most = 0, 0
    lock = threading.Lock()

    def walk() -> None:
        nonlocal refused, most
        for _ in range(200):
            try:
                walker = sessions.open(Walker)
            except Busy:
                with lock:
                    refused += 1
                continue
            walker.work.steps += 1
            with lock:
                most = max(most, sessions.live)
            walker.close()

    threads = [threading.Thread(target=walk) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sessions.live == 0 and most <= 3
    assert sessions.work.steps + refused == 8 * 200


def test_every_field_is_summed() -> None:
    """Every field of both rooms' counters is summed, and the one that is added stays as it is."""
    for kind in (Heard, Said):
        names = [field.name for field in fields(kind)]
        assert len(names) > 10
        total, other = kind(), kind()
        for i, name in enumerate(names):
            setattr(total, name, i)
            setattr(other, name, 100.0)
        total.add(other)
        assert asdict(total) == {name: i + 100 for i, name in enumerate(names)}
        assert set(asdict(other).values()) == {100.0}
