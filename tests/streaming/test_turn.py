"""The end of a turn: what was said, how long it has been silent, and the clock that stands until the first is known."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.sessions import OptionError
from streaming.events import Paused, Resumed, Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.turn import DEFAULT, LITERAL, SHORTEST, Turn, spoken, sure
from tests.clips import RATE, Clip
from tests.streaming.listening import Floats, continuous, finals, finish, hear, listen

WORDS = st.lists(st.sampled_from(["well", "and", "five", "B", "12,", "night.", "you?", "um,"]), max_size=4)
MARKS = st.floats(0, 1)


@pytest.fixture(scope="module")
def conversation(clips: list[Clip]) -> Floats:
    """Utterances with pauses of many lengths, some of them inside a clip."""
    short = [clip for clip in clips if 2 < clip.seconds < 4][:4]
    parts: list[Floats] = []
    for clip, pause in zip(short, (0.25, 0.8, 2.4, 0.5), strict=True):
        half = len(clip.samples) // 2
        parts += [clip.samples[:half], quiet(0.4), clip.samples[half:], quiet(pause)]
    return np.concatenate(parts)


def quiet(seconds: float) -> Floats:
    """Digital silence."""
    return np.zeros(int(seconds * RATE), np.float32)


def test_what_was_said_decides_how_long_a_silence_may_last() -> None:
    """A sentence ends at once; what calls for more waits, and groups of digits or letters to the end."""
    turn = Turn()
    said = ["I", "live", "in", "Rome."]
    assert turn.wait(spoken(said, 0.99)) == SHORTEST
    assert SHORTEST < turn.wait(spoken(said, 0.3)) < turn.wait(spoken(said, 0.01)) == turn.timeout
    assert turn.wait(spoken(["I", "live", "in", "the."], 0.99)) > 1
    for last in ("five", "Five.", "555", "5-5-5.", "K.", "k", "twenty-one", "oh", "三"):
        assert turn.wait(spoken(["It's", last], 0.99)) == turn.timeout, last
    for last in ("five", "10.", "K."):
        assert 0.9 < turn.wait(spoken(["Set", "a", "timer", "for", last], 0.99)) < 1.1, last
    for group in ("is four five.", "is 555.", "is B K."):
        assert turn.wait(spoken(["My", "number", *group.split()], 0.99)) == turn.timeout, group
    assert turn.wait(spoken(["This", "is", "such", "a."], 0.99)) == turn.wait(spoken(["the."], 0.99))
    assert turn.wait(spoken([], 0.99)) < turn.timeout


def test_a_broken_models_mark_speaks_against_an_end() -> None:
    assert Turn().wait(spoken(["It", "rains."], np.nan)) == Turn().timeout


@given(words=WORDS, marks=st.lists(MARKS, min_size=2, max_size=2).map(sorted), silence=st.floats(0, 60))
def test_marks_and_silence_speak_for_an_end(words: list[str], marks: list[float], silence: float) -> None:
    less, more = (spoken(words, mark) for mark in marks)
    assert 0 <= sure(less, silence) <= sure(more, silence) <= sure(more, silence + 0.1) <= 1
    assert SHORTEST <= Turn().wait(more) <= Turn().wait(less) <= Turn().timeout
    assert Turn(least=0.7).wait(more) == max(Turn().wait(more), 0.7)


@given(words=WORDS, mark=MARKS, threshold=st.floats(0.3, 0.99), timeout=st.floats(0.3, 60))
def test_a_turn_ends_where_it_is_as_sure_as_was_asked(
    words: list[str], mark: float, threshold: float, timeout: float
) -> None:
    """And not before, unless the time is out."""
    wait = Turn(threshold, timeout).wait(said := spoken(words, mark))
    if said is not None and SHORTEST < wait < timeout:
        assert sure(said, wait) == pytest.approx(threshold, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("threshold", {"threshold": 1.1}, "threshold: 1.1 lies outside 0.3…1"),
        ("timeout", {"timeout": 61}, "timeout: 61 s lies outside 0.3…60 s"),
        ("timeout", {"timeout": float("nan")}, "timeout: nan s lies outside"),
        ("eager", {"eager": 0.9}, "eager: 0.9 is more than the threshold, 0.8"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(name: str, given: dict[str, float], says: str) -> None:
    with pytest.raises(OptionError) as error:
        Turn(**given)
    assert error.value.field == name and says in str(error.value)


@pytest.fixture(scope="module")
def whole(asr_model: AsrModel, conversation: Floats) -> list[Transcript]:
    """Its finals, where it is fed at once, so that all work is late."""
    return finals(listen(asr_model, conversation, ListenOptions(interim=False), [len(conversation)]))


@settings(max_examples=4)
@given(cuts=st.lists(st.integers(400, 3 * RATE), min_size=1, max_size=6), interim=st.booleans())
def test_turns_are_the_same_for_any_cut(
    asr_model: AsrModel, conversation: Floats, whole: list[Transcript], cuts: list[int], interim: bool
) -> None:
    """And however late the work is."""
    assert finals(listen(asr_model, conversation, ListenOptions(interim=interim), cuts)) == whole


def test_turns_have_every_word_once(asr_model: AsrModel, conversation: Floats) -> None:
    """Where a turn goes on right after its end, the next segment carries on: they lie one after the other, and between
    them is silence alone."""
    hasty = ListenOptions(interim=False, endpointing=Turn(0.3, 0.3), preroll=0.5)
    found = finals(listen(asr_model, conversation, hasty, [len(conversation)]))
    assert len(found) > 4 and all(a.end <= b.start for a, b in pairwise(found))
    covered = np.zeros(len(conversation), bool)
    for one in found:
        covered[round(one.start * RATE) : round(one.end * RATE)] = True
    assert np.abs(conversation[~covered]).max(initial=0) < 0.1


def test_the_clock_stands_until_it_is_known_what_was_said(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Samples and requests queue up meanwhile, and are answered in their order."""
    speech = min(clips, key=lambda clip: abs(clip.seconds - 3)).samples
    listener = asr_model.listener(ListenOptions(interim=False))
    listener.feed(np.concatenate([speech, quiet(5)]))
    listener.finalize()
    assert listener.behind > 3, "what follows the first pause waits"
    events = listener.drain() + finish(listener)
    said = [event for event in events if isinstance(event, Transcript)]
    assert [event.from_finalize for event in said] == [*[False] * (len(said) - 1), True]
    assert said[0].text and said[0].silence <= Turn().timeout + 0.04 and not said[-1].text


def test_what_ends_while_a_frame_is_judged_ends_behind_it(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Another thread may ask for it between a frame and its verdict. The frame is part of what was said."""
    listener = asr_model.listener(ListenOptions(interim=False))
    steps = listener.hear(continuous(clips, 2))
    call = steps.send(None)
    listener.finish()
    with suppress(StopIteration):
        while True:
            (verdict,) = call.run([call.payload])
            call = steps.send(verdict)
    assert finals_of(finish(listener))


def test_by_default_what_is_surely_over_ends_early_and_nothing_later_than_by_silence(
    asr_model: AsrModel, clips: list[Clip]
) -> None:
    early = 0
    for clip in [clip for clip in clips if 2 < clip.seconds < 4][:6]:
        listener = asr_model.listener(ListenOptions(interim=False))
        for final in finals_of(hear(listener, np.concatenate([clip.samples, quiet(2)])) + finish(listener)):
            assert DEFAULT.least <= final.silence <= LITERAL + 0.04
            early += final.silence < LITERAL - 0.1
    assert early


def test_a_turn_tells_how_sure_its_end_is(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Where a silence was judged, and nowhere else."""
    speech = min(clips, key=lambda clip: abs(clip.seconds - 3)).samples
    for ending, judged in ((Turn(), True), (0.6, False)):
        listener = asr_model.listener(ListenOptions(interim=False, endpointing=ending))
        [final] = finals_of(hear(listener, np.concatenate([speech, quiet(4)])) + finish(listener))
        assert final.silence >= SHORTEST and (final.sure is not None) is judged
        listener = asr_model.listener(ListenOptions(interim=False, endpointing=ending))
        final = finals_of(hear(listener, speech) + finish(listener))[-1]
        assert final.silence == 0 and final.sure is None


def finals_of(events: Sequence[object]) -> list[Transcript]:
    """The finals that have words, as they are."""
    return [event for event in events if isinstance(event, Transcript) and event.is_final and event.text]


def test_an_eager_pause_comes_as_sure_as_was_asked(asr_model: AsrModel, conversation: Floats) -> None:
    """Alternating with Resumed while the turn goes on."""
    listener = asr_model.listener(ListenOptions(interim=False, endpointing=Turn(1.0, 60.0, eager=0.2)))
    marks: list[Paused | Resumed] = []
    for at in range(0, len(conversation), 512):
        marks += [e for e in hear(listener, conversation[at : at + 512]) if isinstance(e, Paused | Resumed)]
    finish(listener)
    assert [type(mark) for mark in marks] == [(Paused, Resumed)[i % 2] for i in range(len(marks))] != []
    assert all(mark.sure >= 0.2 for mark in marks if isinstance(mark, Paused))
