"""The policy of lanes on a simulated clock: who goes first, what shares a call, how late each class is, and that nobody
starves."""

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.load import INTERIM_SECONDS, USABLE
from engines.scheduling import ASIDE, SLACK, Pace, Place, Priority, chosen
from tests.engines.simulation import Cost, Figures, Job, Lane, Speaker, crowd

INTERIM = Cost(encoder=0.009, prefill=0.010, step=0.001, steps=5)
FINAL = Cost(encoder=0.009, prefill=0.010, step=0.001, steps=16)


@dataclass(eq=False)
class Call:
    """A call that waits."""

    name: str
    priority: Priority
    deadline: float
    key: Hashable = None
    place: Place | None = None
    begun: bool = True


def order(*calls: Call, now: float = 100.0, most: int = 64, pace: Pace | None = None) -> list[str]:
    """The names of calls in the order in which the policy takes them; names of a shared call are joined."""
    waiting, taken, pace = list(calls), list[str](), pace or Pace()
    while waiting:
        group = chosen(waiting, now, pace, most)
        taken.append("+".join(each.name for each in group))
        waiting = [each for each in waiting if each not in group]
    return taken


def due(name: str, priority: Priority, since: float = 100.0, key: Hashable = None, place: Place | None = None) -> Call:
    """A call of work that became due at ``since``."""
    return Call(name, priority, since + SLACK[priority], key, place)


def test_at_one_moment_the_class_decides() -> None:
    calls = [due(each.name, each) for each in reversed(Priority)]
    assert order(*calls) == ["FINAL", "EARLY", "INTERIM", "BACKLOG"]


def test_within_a_class_the_deadline_decides() -> None:
    """A final in advance that has waited long goes before a final that has not."""
    old, young = due("old", Priority.EARLY, 99.0), due("young", Priority.FINAL, 99.9)
    assert order(due("new", Priority.FINAL), young, old) == ["old", "young", "new"]
    assert order(due("b", Priority.INTERIM, 99.9), due("a", Priority.INTERIM, 99.8)) == ["a", "b"]


@pytest.mark.parametrize("priority", [Priority.INTERIM, Priority.BACKLOG])
def test_of_what_is_past_its_deadline_one_goes_first_once_in_its_slack(priority: Priority) -> None:
    """Overdue work of a class goes first once in its slack, however much waits and whatever is more urgent. So nobody
    starves, and nobody waits for more than one such piece."""
    long_ago = 90.0 - SLACK[priority]
    waiting = [due("x", priority, long_ago), due("y", priority, long_ago + 1)]
    finals = [due("1", Priority.FINAL), due("2", Priority.FINAL)]
    assert order(*waiting, *finals) == ["x", "1", "2", "y"]
    soon = Pace()
    soon.at[priority] = 100.0 - SLACK[priority] + 0.01
    assert order(*waiting, *finals, pace=soon) == ["1", "2", "x", "y"]


def test_pieces_of_work_begin_together_as_many_as_may_and_none_that_is_less_urgent() -> None:
    """One that stands before a call is none of them."""
    a, b, c = (Call(name, Priority.EARLY, 100.0, begun=False) for name in "abc")
    less, call = Call("less", Priority.BACKLOG, 100.5, begun=False), Call("call", Priority.EARLY, 100.1)
    waiting = [less, call, a, b, c]
    assert [each.name for each in chosen(waiting, 100.0, Pace(), 64, 2)] == ["a", "b"]
    assert [each.name for each in chosen(waiting, 100.0, Pace(), 64, 8)] == ["a", "b", "c"]
    assert [each.name for each in chosen(waiting, 100.0, Pace(), 64)] == ["a"]


def test_calls_of_one_key_and_place_share_as_many_as_may() -> None:
    """Calls of one key and place share a call, the most urgent first, whatever order they came in; what is due much
    later joins only where that costs nothing."""
    here, there = Place(), Place()
    calls = [
        due("backlog", Priority.BACKLOG, key="step", place=here),
        due("interim", Priority.INTERIM, key="step", place=here),
        due("other", Priority.FINAL, key="rows", place=here),
        due("away", Priority.EARLY, key="step", place=there),
        due("final", Priority.FINAL, 99.0, key="step", place=here),
    ]
    assert order(*calls) == ["final+interim", "other", "away", "backlog"]
    here.flat = True
    assert order(*calls) == ["final+interim+backlog", "other", "away"]
    assert order(*calls, most=2) == ["final+interim", "other", "away", "backlog"]


def test_what_runs_elsewhere_is_passed_over() -> None:
    """A call waits while its place is in use, and none is chosen if no place is free."""
    taken = Place(taken=True)
    final, interim = due("final", Priority.FINAL, place=taken), due("interim", Priority.INTERIM)
    assert [each.name for each in chosen([final, interim], 100.0, Pace(), 8)] == ["interim"]
    assert chosen([final], 100.0, Pace(), 8) == []


def test_on_a_flat_place_what_shares_no_call_goes_first_for_as_long_as_a_shared_one_took() -> None:
    """Live work that shares no call goes first, for at most ``ASIDE``, so that its steps can join the next shared
    calls."""
    place = Place(flat=True, least=Priority.INTERIM)
    step = due("step", Priority.FINAL, 99.0, key="step", place=place)
    alone, file = due("alone", Priority.INTERIM, place=place), due("file", Priority.BACKLOG, place=place)
    assert order(step, alone, file) == ["step", "alone", "file"]
    place.took(5.0, Priority.FINAL, 100.0, shared=True)
    assert place.aside == 100.0 + ASIDE
    assert order(step, alone, file) == ["alone", "step", "file"]
    place.took(ASIDE, Priority.FINAL, 100.0, shared=False)
    assert order(step, alone, file, now=100.0 + ASIDE) == ["step", "alone", "file"]
    place.aside = -math.inf
    assert order(step, alone, file) == ["step", "alone", "file"]
    late = due("late", Priority.BACKLOG, key="step", place=place)
    place.took(0.1, Priority.FINAL, 100.0, shared=True)
    assert order(late, due("file", Priority.BACKLOG, 100.5, place=place)) == ["file", "late"]


def test_beside_the_steps_of_a_large_model_no_interim_goes_before_a_final() -> None:
    """Another final's first calls do, wherever they run: so that their steps are soon one call."""
    place = Place(flat=True)
    step = due("step", Priority.FINAL, 99.0, key="step", place=place)
    other, interim = due("other", Priority.EARLY), due("interim", Priority.INTERIM)
    place.took(0.06, Priority.FINAL, 100.0, shared=True)
    assert order(step, other, interim) == ["other", "step", "interim"]
    shy = due("shy", Priority.INTERIM, 99.0, key="step", place=place)
    assert order(shy, interim) == ["interim", "shy"]


# -------------------------------------------------------------------------------------------------- nobody starves


LOW = st.tuples(st.sampled_from([Priority.INTERIM, Priority.BACKLOG]), st.floats(0, 20))


@settings(max_examples=30)
@given(st.lists(LOW, min_size=1, max_size=8), st.floats(0.01, 0.05))
def test_nobody_starves_beside_finals_without_an_end(asked: list[tuple[Priority, float]], call: float) -> None:
    """On a machine that finals alone more than fill, one piece of each other class is taken in each of its slacks, so
    the k-th that waits has its turn k slacks after its deadline."""
    lane, served = Lane(1), dict[int, float]()

    def final(at: float) -> None:
        lane.put(Job(Priority.FINAL, at, [(call, None, None)], final))

    for _ in range(3):
        lane.at(0.0, lambda: final(0.0))
    for number, (priority, when) in enumerate(asked):

        def ask(number: int = number, priority: Priority = priority) -> None:
            done = served.__setitem__
            calls: list[tuple[float, Hashable, Place | None]] = [(call, None, None)]
            lane.put(Job(priority, lane.now + SLACK[priority], calls, lambda at: done(number, at)))

        lane.at(when, ask)
    lane.run(140)
    for priority in (Priority.INTERIM, Priority.BACKLOG):
        same = sorted((when, served[number]) for number, (each, when) in enumerate(asked) if each is priority)
        for place, (_, at) in enumerate(same, 1):
            assert at <= max(when for when, _ in same) + (place + 1) * (SLACK[priority] + 3 * call)


# ------------------------------------------------------------------------------------------------- latency by class


def test_ten_thousand_sessions_come_and_go_and_their_finals_are_in_time() -> None:
    """With two dozen sessions at a time, ten thousand in all, finals and words are in time."""
    began, lane, figures = time.process_time(), Lane(2), Figures()
    cheap = Cost(encoder=0.009, prefill=0.015)
    places = [Place(), Place()]
    for number in range(10_000):
        random, start = np.random.default_rng(number), number / 4
        speaker = Speaker(lane, figures, cheap, cheap, places[number % 2], random, start + 2)
        lane.at(start, speaker.begin)
    lane.run(math.inf)
    assert len(figures.finals) >= 10_000
    assert figures.late(figures.finals) < 0.05
    assert figures.late(figures.words) < 0.8
    assert time.process_time() - began < 60


def test_under_overload_interims_thin_out_and_finals_stay_in_time() -> None:
    """With every further session words come later, and finals are late only once finals alone fill the machine."""
    figures = {count: crowd(count, 60, INTERIM, FINAL) for count in (8, 24, 48)}
    words = [each.late(each.words) for each in figures.values()]
    assert words == sorted(words) and words[0] < 0.4 < 1.0 < words[-1]
    for each in figures.values():
        assert each.late(each.finals) < 0.1


def test_finals_of_a_large_model_are_sooner_where_steps_wait_for_each_other() -> None:
    """One thread, and a step that reads all weights whatever it holds: several sessions' finals come sooner by a
    fifth, there are more interims, and one session alone waits for nobody."""
    interim, final = Cost(0.12, 0.12, 0.05, 4, more=0.03), Cost(0.12, 0.12, 0.05, 16, more=0.03)
    for count in (3, 4, 6):
        by_turns, together = (crowd(count, 300, interim, final, threads=1, flat=flat) for flat in (False, True))
        assert together.late(together.finals) < 0.8 * by_turns.late(by_turns.finals)
        assert len(together.words) > 1.1 * len(by_turns.words)
    one, other = (crowd(1, 60, interim, final, threads=1, flat=flat) for flat in (False, True))
    assert one.finals == other.finals


def test_files_get_what_live_sessions_leave() -> None:
    """Beside a dozen files without an end, finals and words are late by no more than one call of a file."""
    alone, beside = crowd(8, 60, INTERIM, FINAL), crowd(8, 60, INTERIM, FINAL, files=12)
    assert beside.late(beside.finals) <= alone.late(alone.finals) + 0.05
    assert beside.late(beside.words, 50) <= alone.late(alone.words, 50) + 0.11


@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0])
def test_as_many_as_admission_lets_in_are_heard_in_time(scale: float) -> None:
    """Its arithmetic on measured costs is that of this simulation: words are in captions within 0.6 s and finals within
    0.2 s; with a quarter more sessions they are not."""
    interim = Cost(0.007 * scale, 0.006 * scale, 0.0006 * scale, 5)
    final = Cost(0.007 * scale, 0.006 * scale, 0.0006 * scale, 20)
    seconds = 0.5 * (1.5 + 6)  # of an utterance
    cost = (_seconds(final) / seconds + _seconds(interim) / INTERIM_SECONDS) / 2
    count = int(USABLE / cost)
    fitting, more = crowd(count, 60, interim, final), crowd(int(1.25 * count), 60, interim, final)
    assert fitting.late(fitting.finals) < 0.2 and fitting.late(fitting.words) < 0.62
    assert more.late(more.words) > 0.66


def _seconds(cost: Cost) -> float:
    return cost.encoder + cost.prefill + cost.step * cost.steps


def test_a_second_thread_carries_twice_as_many() -> None:
    """Two threads with a decoder each keep twice as many sessions live as one."""
    one, two = crowd(8, 60, INTERIM, FINAL, threads=1), crowd(16, 60, INTERIM, FINAL, threads=2)
    assert two.late(two.words) <= one.late(one.words) * 1.1
