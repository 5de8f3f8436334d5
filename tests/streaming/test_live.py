"""The clock and the work of a session as two sides: the clock never waits, and what is said follows from it alone."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.batching import Cancelled
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.vad import FRAME
from tests.clips import RATE, Clip
from tests.lanes import held
from tests.streaming.listening import LIVE, OFFLINE, OFFLINE_UNBROKEN, Floats, continuous, finals, finish, hear, listen

SLICE = RATE * 2 // 5


def silence(seconds: float) -> Floats:
    """Digital."""
    return np.zeros(int(seconds * RATE), np.float32)


def lasting(events: list[Event]) -> list[Event]:
    """All but interims, without what may depend on them."""
    whole = iter(finals(events))
    kept = [e for e in events if not isinstance(e, Transcript) or e.is_final]
    return [next(whole) if isinstance(e, Transcript) else e for e in kept]


@pytest.fixture(scope="module")
def short(clips: list[Clip]) -> list[Clip]:
    """Short clips in which something is heard."""
    return [clip for clip in clips if 2 < clip.seconds < 4]


@pytest.fixture(scope="module")
def conversation(short: list[Clip]) -> Floats:
    """Utterances with pauses shorter and longer than an endpoint, and than what ends an utterance."""
    pauses = (0.25, 0.8, 1.6, 0.4)
    return np.concatenate([part for clip, pause in zip(short, pauses) for part in (clip.samples, silence(pause))])


@contextmanager
def stepping(model: AsrModel, listener: Listener) -> Iterator[list[list[Event]]]:
    """One step, in another thread, that waits in a lane: every lane works on something else until the block ends. What
    it returned when that is over."""
    returned: list[list[Event]] = []
    lanes = {model.engine.lane, model.engine.encoder_lane}

    def step() -> None:
        try:
            returned.append(listener.step())
        except Cancelled:
            pass

    thread = threading.Thread(target=step)
    with ExitStack() as stack:
        for lane in lanes:
            stack.enter_context(held(lane))
        thread.start()
        while not any(lane.waiting for lane in lanes):
            time.sleep(0.001)
        yield returned
    thread.join(60)
    assert not thread.is_alive()


def test_the_clock_never_waits_for_a_model(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Minutes of speech while all lanes are blocked: each call is short, and what is owed grows."""
    samples = continuous(clips, 90)
    listener = asr_model.listener(LIVE)
    lengths: list[float] = []
    behind: list[float] = []
    listener.feed(samples[:RATE])
    assert [type(event) for event in listener.step()] == [SpeechStarted]
    with stepping(asr_model, listener):
        for at in range(RATE, len(samples), SLICE):
            began = time.thread_time()
            listener.feed(samples[at : at + SLICE])
            _ = listener.ready, listener.finished, listener.seconds
            lengths.append(time.thread_time() - began)
            behind.append(listener.behind)
        listener.finalize()
        assert listener.ready and not listener.finished
        assert listener.seconds == pytest.approx(len(samples) / RATE)
        assert listener.heard == pytest.approx(listener.seconds - listener.behind)
        closing = threading.Thread(target=listener.close)
        closing.start()
    closing.join(60)
    # Of the thread's own time: a busy machine may stop it anywhere. Had it waited for a lane, it would wait still.
    assert median(lengths) < 0.02 and max(lengths) < 0.1
    assert behind[0] == 0 and behind[-1] > 70
    assert behind == sorted(behind)


def test_an_interim_that_waits_is_withdrawn_when_its_final_is_due(asr_model: AsrModel, short: list[Clip]) -> None:
    """It is not made in vain, and its step says nothing."""
    listener = asr_model.listener(LIVE)
    samples = continuous(short, 1.5)
    listener.feed(samples)
    assert [type(event) for event in listener.step()] == [SpeechStarted]
    with stepping(asr_model, listener) as said:
        before = listener.work.withdrawn, listener.work.ticks
        listener.feed(silence(1.0))
    assert said == [[]]
    assert (listener.work.withdrawn, listener.work.ticks) == (before[0] + 1, before[1])
    heard = finals(listener.drain() + finish(listener))
    assert heard == finals(listen(asr_model, np.concatenate([samples, silence(1.0)]), OFFLINE, [10**9]))


def test_an_interim_that_waits_is_withdrawn_when_a_window_is_due(asr_model: AsrModel, clips: list[Clip]) -> None:
    """A final needs the window: a session whose window waits behind its interim is late, and taken for backlog."""
    listener = asr_model.listener(ListenOptions(interim=True, endpointing=None))
    samples = continuous(clips, 9)
    listener.feed(samples[: 15 * RATE // 2])
    assert [type(event) for event in listener.step()] == [SpeechStarted]
    with stepping(asr_model, listener) as said:
        listener.feed(samples[15 * RATE // 2 :])
    assert said == [[]]
    assert (listener.work.withdrawn, listener.work.ticks, listener.work.windows) == (1, 0, 0)
    listener.step()
    assert listener.work.windows == 1
    assert finals(finish(listener)) == finals(listen(asr_model, samples, OFFLINE_UNBROKEN, [10**9]))


def paused(short: list[Clip]) -> tuple[Floats, Floats]:
    """Speech with a pause behind it in which a final is decoded in advance, and speech that goes on."""
    return np.concatenate([short[0].samples, silence(0.5)]), short[1].samples


@pytest.mark.parametrize("waits", [False, True])
def test_a_final_in_advance_is_discarded_when_speech_goes_on(
    asr_model: AsrModel, short: list[Clip], waits: bool
) -> None:
    """Whether it was made by then or waits for its turn; the final is that of all the audio."""
    before, after = paused(short)
    options = ListenOptions(interim=False, endpointing=2.0)
    listener = asr_model.listener(options)
    if waits:
        listener.feed(before)
        assert [type(event) for event in listener.step()] == [SpeechStarted]
        with stepping(asr_model, listener) as said:
            listener.feed(after)
        assert said == [[]]
        assert listener.work.withdrawn == 1
    else:
        hear(listener, before)
        assert (listener.work.finals, listener.work.finals_discarded) == (1, 0)
        listener.feed(after)
        assert listener.work.finals_discarded >= 1
    heard = finals(finish(listener))
    assert heard == finals(listen(asr_model, np.concatenate([before, after]), options, [10**9]))
    assert len(heard) == 1


ACTIONS = st.lists(
    st.one_of(st.integers(160, 60_000), st.sampled_from(["step", "step", "step", "drain"])), min_size=1, max_size=30
)


@settings(max_examples=8)
@given(actions=ACTIONS, endpointing=st.sampled_from([0.3, 0.6]), marks=st.sets(st.integers(1, 150), max_size=3))
def test_what_is_said_does_not_depend_on_when_the_work_is_done(
    asr_model: AsrModel,
    conversation: Floats,
    actions: list[int | str],
    endpointing: float,
    marks: set[int],
) -> None:
    """Any interleaving of feed and step, finalize at the same samples: the same events in the same order, bit for bit,
    interims aside."""

    def play(interim: bool, plan: Iterator[int | str]) -> list[Event]:
        listener = asr_model.listener(ListenOptions(interim=interim, endpointing=endpointing, utterance_end=1.0))
        events: list[Event] = []
        edges = sorted({*(mark * 1600 for mark in marks if mark * 1600 < len(conversation)), len(conversation)})
        at = 0
        for edge in edges:
            while at < edge:
                match next(plan):
                    case int() as count:
                        listener.feed(conversation[at : min(at + count, edge)])
                        at = min(at + count, edge)
                    case "step":
                        events += listener.step()
                    case _:
                        events += listener.drain()
            if edge < len(conversation):
                listener.finalize()
        return events + finish(listener)

    told = lasting(play(True, itertools.cycle([*actions, 8000])))
    assert told == lasting(play(False, itertools.repeat(10**9)))
    assert sum(isinstance(e, Transcript) and e.from_finalize for e in told) == len(
        {mark for mark in marks if mark * 1600 < len(conversation)}
    )
    spoken = [e for e in told if isinstance(e, Transcript)]
    assert all(before.end <= after.start for before, after in itertools.pairwise(spoken))


def test_a_clock_and_its_work_in_two_threads_say_what_one_says(asr_model: AsrModel, conversation: Floats) -> None:
    listener = asr_model.listener(ListenOptions(utterance_end=1.0))
    events: list[Event] = []

    def work() -> None:
        while not listener.finished:
            events.extend(listener.step()) if listener.ready else time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    for at in range(0, len(conversation), 1600):
        listener.feed(conversation[at : at + 1600])
        time.sleep(0.01)
    listener.finish()
    thread.join(120)
    listener.close()
    alone = listen(asr_model, conversation, ListenOptions(interim=False, utterance_end=1.0), [10**9])
    assert lasting(events) == lasting(alone)
    assert {type(event) for event in alone} == {SpeechStarted, Transcript, UtteranceEnd}


def test_another_session_goes_on_where_one_ended(asr_model: AsrModel, short: list[Clip]) -> None:
    """From the frame in which an endpoint's final ends: the same utterances, words and times, whatever came before."""
    pauses = (1.6, 1.0, 0.9, 2.4, 1.2, 1.0)
    audio = np.concatenate([part for clip, pause in zip(short, pauses) for part in (clip.samples, silence(pause))])
    whole = finals(listen(asr_model, audio, OFFLINE, [10**9]))
    ends = [final.end for final in whole if final.speech_final][:-1]
    assert len(ends) >= 4
    for end in ends:
        start = int(end * RATE + 0.5) // FRAME * FRAME
        rest = finals(listen(asr_model, audio[start:], OFFLINE, [10**9]))
        left = [final for final in whole if final.start >= end]
        assert [final.text for final in rest] == [final.text for final in left]
        for one, other in zip(rest, left, strict=True):
            assert one.start + start / RATE == pytest.approx(other.start, abs=1e-6)
            assert one.end + start / RATE == pytest.approx(other.end, abs=1e-6)


def test_every_finalize_is_answered_once_in_its_turn(asr_model: AsrModel, short: list[Clip]) -> None:
    """In silence, in speech, several in a row, all before any work was done."""
    listener = asr_model.listener(LIVE)
    listener.finalize()
    listener.feed(short[0].samples)
    listener.finalize()
    listener.finalize()
    listener.feed(silence(0.1))
    listener.finalize()
    listener.feed(short[1].samples)
    listener.feed(silence(1.0))
    listener.finalize()
    said = finals(finish(listener))
    answers = [final for final in said if final.from_finalize]
    assert [final.end for final in said] == sorted(final.end for final in said)
    assert len(answers) == 5
    assert [bool(final.text) for final in answers] == [False, True, False, False, False]
    ended = [final for final in said if not final.from_finalize]
    assert [final.speech_final for final in ended] == [True] and ended[0].text
    assert said.index(ended[0]) == 4


def ends(events: list[Event]) -> list[UtteranceEnd]:
    """Of utterances."""
    return [event for event in events if isinstance(event, UtteranceEnd)]


def test_what_follows_an_empty_answer_begins_behind_it(asr_model: AsrModel, short: list[Clip]) -> None:
    """A finalize just before somebody speaks takes nothing of the audio that belongs to their words."""
    audio = np.concatenate([silence(1.0), short[0].samples, silence(1.0)])
    (whole,) = finals(listen(asr_model, audio, OFFLINE, [10**9]))
    asked = int((whole.start + 0.1) * RATE)
    listener = asr_model.listener(OFFLINE)
    listener.feed(audio[:asked])
    listener.finalize()
    listener.feed(audio[asked:])
    answer, final = finals(finish(listener))
    assert answer.from_finalize and not answer.text
    assert answer.end <= final.start
    assert (final.text, final.end) == (whole.text, whole.end)


def test_a_silence_is_told_of_once_where_nothing_ends_an_utterance(asr_model: AsrModel, short: list[Clip]) -> None:
    """After ``utterance_end`` seconds of it, inside the open utterance, and not again with its final."""
    listener = asr_model.listener(ListenOptions(endpointing=None, utterance_end=1.0))
    hear(listener, short[0].samples)
    told: list[tuple[float, Event]] = []
    for _ in range(30):
        told += [(listener.seconds, event) for event in ends(hear(listener, silence(0.1)))]
    assert len(told) == 1
    at, event = told[0]
    assert isinstance(event, UtteranceEnd)
    assert 1.0 <= at - event.last_word_end < 1.2
    assert event.last_word_end <= short[0].seconds
    listener.finalize()
    assert [type(each) for each in listener.drain()] == [Transcript]
    assert ends(hear(listener, silence(2.0)) + finish(listener)) == []


def test_every_silence_is_told_of_that_is_long_enough(asr_model: AsrModel, short: list[Clip]) -> None:
    """Also the one behind an utterance in which another was told of."""
    listener = asr_model.listener(ListenOptions(endpointing=None, utterance_end=1.0))
    inside = ends(hear(listener, short[0].samples) + hear(listener, silence(2.0)))
    assert len(inside) == 1
    assert ends(hear(listener, short[1].samples)) == []
    listener.finalize()
    (final,) = finals(listener.drain())
    behind = ends(hear(listener, silence(2.0)))
    assert [event.last_word_end for event in behind] == [final.words[-1].end]
    assert ends(finish(listener)) == []


def test_nothing_is_finished_before_everything_is_said(asr_model: AsrModel, short: list[Clip]) -> None:
    """A gap that the last samples complete is still told of."""
    listener = asr_model.listener(ListenOptions(interim=False, utterance_end=2.0))
    hear(listener, short[0].samples)
    said = hear(listener, silence(1.0))
    assert finals(said) and not ends(said)
    listener.feed(silence(3.0))
    listener.finish()
    assert not listener.finished and listener.ready
    assert len(ends(listener.step())) == 1
    assert listener.finished and not listener.ready
    listener.close()


def test_after_its_end_a_listener_hears_nothing(asr_model: AsrModel) -> None:
    """Finishing again is fine, as long as it is not closed."""
    listener = asr_model.listener(LIVE)
    listener.finish()
    listener.finish()
    assert listener.finished
    with pytest.raises(ValueError, match="finished"):
        listener.feed(silence(0.1))
    with pytest.raises(ValueError, match="finished"):
        listener.finalize()
    assert listener.drain() == []
    listener.close()
    calls: list[Callable[[], object]] = [
        lambda: listener.feed(silence(0.1)),
        listener.finalize,
        listener.finish,
        listener.step,
    ]
    for call in calls:
        with pytest.raises(Cancelled):
            call()


@pytest.mark.parametrize("live", [True, False])
def test_audio_counts_for_the_load_as_far_as_its_work_was_live(
    asr_model: AsrModel, clips: list[Clip], live: bool
) -> None:
    """All of a live session's, window by window; of a file's only what was not backlog, as the lanes book its time."""
    samples = continuous(clips, 20)
    load, counted = asr_model.engine.load, list[float]()
    listener = asr_model.listener(ListenOptions(interim=False, endpointing=None))
    before = load._audio  # pyright: ignore[reportPrivateUsage]
    for at in range(0, len(samples), RATE // 2 if live else len(samples)):
        hear(listener, samples[at : at + (RATE // 2 if live else len(samples))])
        counted.append(load._audio - before)  # pyright: ignore[reportPrivateUsage]
    (final,) = finals(finish(listener))
    counted.append(load._audio - before)  # pyright: ignore[reportPrivateUsage]
    if live:
        assert counted[-1] == pytest.approx(final.end - final.start)
        assert len(set(counted)) == 4  # nothing, two windows, the rest
    else:
        assert counted[0] == 0
        assert counted[-1] == pytest.approx(final.end - final.start - 16, abs=0.05)
