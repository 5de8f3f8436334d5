"""The two sides of a session, clock and work: the clock never waits, and it alone decides what the events are."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from math import inf
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.lane import Cancelled, Task, alone
from engines.scheduling import Pace, Priority, chosen
from streaming.encoder import AudioEncoder
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.vad import FRAME
from tests.clips import RATE, Clip
from tests.lanes import held, until_waiting
from tests.streaming.listening import LIVE, OFFLINE, OFFLINE_UNBROKEN, Floats, continuous, finals, finish, hear, listen

SLICE = RATE * 2 // 5


def silence(seconds: float) -> Floats:
    """Digital silence."""
    return np.zeros(int(seconds * RATE), np.float32)


def lasting(events: list[Event]) -> list[Event]:
    """All events but interims, without fields that may depend on interims."""
    whole = iter(finals(events))
    kept = [e for e in events if not isinstance(e, Transcript) or e.is_final]
    return [next(whole) if isinstance(e, Transcript) else e for e in kept]


@pytest.fixture(scope="module")
def short(clips: list[Clip]) -> list[Clip]:
    """Short clips in which the model finds words."""
    return [clip for clip in clips if 2 < clip.seconds < 4]


@pytest.fixture(scope="module")
def conversation(short: list[Clip]) -> Floats:
    """Utterances with pauses of many lengths around those of an endpoint and of UtteranceEnd."""
    pauses = (0.25, 0.8, 1.6, 0.4)
    return np.concatenate([part for clip, pause in zip(short, pauses) for part in (clip.samples, silence(pause))])


@contextmanager
def stepping(model: AsrModel, listener: Listener) -> Iterator[list[list[Event]]]:
    """Run one step in another thread, and keep it waiting while the block runs by giving all lanes other work. It gives
    a list that has the step's events afterwards."""
    returned: list[list[Event]] = []
    lane = model.engine.lane

    def step() -> None:
        try:
            returned.append(listener.step())
        except Cancelled:
            pass

    thread = threading.Thread(target=step)
    with held(lane):
        thread.start()
        until_waiting(lane, 1)
        yield returned
    thread.join(60)
    assert not thread.is_alive()


@contextmanager
def under_way(model: AsrModel, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Event]]]:
    """As ``stepping``, but the step has begun, and its first call of the encoder lasts while the block runs."""
    begun, gate, run = threading.Event(), threading.Event(), AudioEncoder._run_stem

    def slow(encoder: AudioEncoder, jobs: Sequence[Sequence[Floats]]) -> list[list[Floats]]:
        begun.set()
        gate.wait()
        return run(encoder, jobs)

    returned: list[list[Event]] = []
    thread = threading.Thread(target=lambda: returned.append(listener.step()))
    with monkeypatch.context() as patch:
        patch.setattr(AudioEncoder, "_run_stem", slow)
        thread.start()
        begun.wait()
        try:
            yield returned
        finally:
            gate.set()
            thread.join(60)
    assert not thread.is_alive()


def test_the_clock_never_waits_for_a_model(asr_model: AsrModel, clips: list[Clip]) -> None:
    """While all lanes are blocked, minutes of speech can be fed with short calls, and the work that is due grows."""
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


@pytest.mark.parametrize("waits", [False, True])
def test_a_session_that_is_behind_goes_before_files(asr_model: AsrModel, clips: list[Clip], waits: bool) -> None:
    """Whether it falls behind while its work waits, or was so before: files get the time that live sessions leave."""
    lane = asr_model.engine.lane
    samples = continuous(clips, 4)
    with closing(asr_model.listener(LIVE)) as listener:
        listener.feed(samples[:RATE])
        listener.step()
        file = Task(alone(lambda: None), Priority.BACKLOG)
        stepped = threading.Thread(target=listener.step)
        with held(lane):
            lane.start(file)
            listener.feed(samples[RATE:], 0.0 if waits else 20.0)
            stepped.start()
            until_waiting(lane, 2)
            if waits:
                listener.feed(samples[:RATE], 20.0)
            waiting = lane._waiting  # pyright: ignore[reportPrivateUsage]
            assert [task.priority for task in waiting] == [Priority.BACKLOG] * 2
            [first] = chosen(waiting, time.monotonic(), Pace(dict.fromkeys(Priority, inf)), 1)
            assert first is not file
        stepped.join(60)
        file.future.result(60)


@pytest.mark.parametrize("begun", [False, True])
def test_an_interim_is_given_up_when_its_final_is_due(
    asr_model: AsrModel, short: list[Clip], monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """When a final becomes due, an interim that still waits is replaced by it; one that has begun ends without an
    event."""
    listener = asr_model.listener(ListenOptions(endpointing=0.6))
    samples = continuous(short, 1.5)
    listener.feed(samples)
    assert [type(event) for event in listener.step()] == [SpeechStarted]
    before = listener.work.ticks
    with under_way(asr_model, listener, monkeypatch) if begun else stepping(asr_model, listener) as said:
        listener.feed(silence(1.0))
    assert (listener.work.withdrawn, listener.work.ticks) == (int(begun), before)
    assert len(said) == 1 and bool(finals(said[0])) is not begun
    heard = finals(said[0] + listener.drain() + finish(listener))
    offline = ListenOptions(interim=False, endpointing=0.6)
    assert heard == finals(listen(asr_model, np.concatenate([samples, silence(1.0)]), offline, [10**9]))


@pytest.mark.parametrize("begun", [False, True])
def test_an_interim_is_given_up_when_a_window_is_due(
    asr_model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """An interim gives way to a window too, since a final needs it. Otherwise the session would be late and become
    backlog."""
    listener = asr_model.listener(ListenOptions(interim=True, endpointing=None))
    samples = continuous(clips, 9)
    listener.feed(samples[: 15 * RATE // 2])
    assert [type(event) for event in listener.step()] == [SpeechStarted]
    with under_way(asr_model, listener, monkeypatch) if begun else stepping(asr_model, listener) as said:
        listener.feed(samples[15 * RATE // 2 :])
    assert said == [[]]
    work = listener.work
    assert (work.withdrawn, work.ticks, work.windows) == ((1, 0, 0) if begun else (0, 0, 1))
    listener.step()
    assert (work.windows, work.ticks) == ((1, 0) if begun else (1, 1))
    assert finals(finish(listener)) == finals(listen(asr_model, samples, OFFLINE_UNBROKEN, [10**9]))


def paused(short: list[Clip]) -> tuple[Floats, Floats]:
    """Speech with a pause in which a final is decoded in advance, followed by more speech."""
    return np.concatenate([short[0].samples, silence(0.5)]), short[1].samples


@pytest.mark.parametrize("begun", [False, True])
def test_a_final_in_advance_is_discarded_when_speech_goes_on(
    asr_model: AsrModel, short: list[Clip], monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    """A final in advance, made or under way, is dropped when speech goes on. The final has all the audio then."""
    before, after = paused(short)
    options = ListenOptions(interim=False, endpointing=2.0)
    listener = asr_model.listener(options)
    if begun:
        listener.feed(before)
        assert [type(event) for event in listener.step()] == [SpeechStarted]
        with under_way(asr_model, listener, monkeypatch) as said:
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
    """However calls of feed and step alternate, with finalize at the same samples, all events but interims are the
    same, bit for bit."""

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
    """A new session fed from the frame at which a final ended gives the same utterances, words and times as the old
    one."""
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
    """Each finalize gets its answer in turn: in silence, in speech, several in a row, and before any work was done."""
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
    """The UtteranceEnd events among ``events``."""
    return [event for event in events if isinstance(event, UtteranceEnd)]


def test_what_follows_an_empty_answer_begins_behind_it(asr_model: AsrModel, short: list[Clip]) -> None:
    """A finalize just before somebody speaks takes away none of the audio of their words."""
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
    """Without endpointing, UtteranceEnd comes ``utterance_end`` seconds into a silence, and not again with the
    final."""
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
    """UtteranceEnd comes for every long silence, also for the one after an utterance that had another inside."""
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
    """UtteranceEnd still comes if the very last samples make the silence long enough."""
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
    """A finished listener takes no audio; finishing it again is allowed until it is closed."""
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


@pytest.mark.parametrize("live", [True, False])
def test_audio_counts_for_the_load_as_far_as_its_work_was_live(
    asr_model: AsrModel, clips: list[Clip], live: bool
) -> None:
    """All audio of a live session counts for the load, window by window; none that was heard as backlog does."""
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
