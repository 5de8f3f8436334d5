"""The stream between bytes and events: order, bounds, cuts that change nothing, and a clock that waits for no model."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, aclosing, asynccontextmanager, closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audio.pcm import Samples, Shape
from audio.wire import RawDecoder
from daemon.ears import Ears
from daemon.hearing import (
    GATHER_SECONDS,
    MOST_BEHIND_SECONDS,
    MOST_FINALIZES,
    MUTED_SECONDS,
    HearingStream,
    Said,
)
from daemon.metrics import Metrics
from daemon.workers import SessionWorker
from engines.lane import Steps
from engines.scheduling import Priority
from streaming.events import SpeechStarted, Transcript
from streaming.listener import Listener
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.vad import FRAME, Frame, VoiceModel
from tests.daemon.support import RATE, Speech
from tests.lanes import held
from tests.streaming.listening import finish, hear

BYTES = 2 * RATE


@asynccontextmanager
async def opened(
    model: AsrModel, limit: float = 300, *, interim: bool = False, ears: Ears | None = None
) -> AsyncIterator[HearingStream]:
    """A stream of linear16 at 16 kHz."""
    with ThreadPoolExecutor(2) as pool, closing(Ears("ears")) as own:
        worker = SessionWorker[Listener](pool, model.listener(ListenOptions(interim=interim)))
        try:
            yield HearingStream(
                worker, ears or own, RawDecoder(Shape("linear16", RATE, 1), RATE), limit, Metrics(), "x"
            )
        finally:
            await worker.close()


async def everything(stream: HearingStream) -> list[Said]:
    """All that is said until the stream's end."""
    async with aclosing(stream.batches()) as batches:
        return [said async for batch in batches for said in batch]


class Clock:
    """Stands for the module ``time`` in a stream and its ears: seconds that stand until a test moves them."""

    def __init__(self, ears: Ears) -> None:
        self.now, self._ears = 1000.0, ears

    def monotonic(self) -> float:
        """As that module's."""
        return self.now

    async def goes_on(self, stream: HearingStream, seconds: float) -> None:
        """Move the clock, and wait until the stream has heard all that is due."""
        self.now += seconds
        while stream.due <= self.now:
            self._ears.wake(-math.inf)
            await asyncio.sleep(0.001)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Clock, Ears]]:
    """Such a clock, and ears that live by it."""
    with closing(Ears("ears")) as ears:
        clock = Clock(ears)
        for module in ("daemon.hearing", "daemon.ears"):
            monkeypatch.setattr(f"{module}.time", clock)
        yield clock, ears


def transcripts(said: list[Said]) -> list[Transcript]:
    """The finals."""
    return [one.event for one in said if isinstance(one.event, Transcript) and one.event.is_final]


def floats(pcm: bytes) -> Samples:
    """Samples of linear16."""
    return (np.frombuffer(pcm, "<i2") / np.float32(32768)).astype(np.float32)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), pauses=st.booleans())
def test_cuts_change_no_final(asr_model: AsrModel, speech: Speech, data: st.DataObject, pauses: bool) -> None:
    """Whatever the frames, odd byte counts included, the finals are those of the samples fed at once."""
    listener = asr_model.listener(ListenOptions(interim=False))
    events = [*hear(listener, floats(speech.pcm)), *finish(listener)]
    expected = [e for e in events if isinstance(e, Transcript) and e.is_final]
    assert any(e.text for e in expected)
    cuts = data.draw(st.lists(st.integers(0, len(speech.pcm)), max_size=40))

    async def through() -> None:
        async with opened(asr_model) as stream:
            hearing = asyncio.create_task(everything(stream))
            edges = [0, *sorted(cuts), len(speech.pcm)]
            for start, end in zip(edges, edges[1:], strict=False):
                assert stream.push(speech.pcm[start:end])
                if pauses:
                    await asyncio.sleep(0)
            stream.end()
            assert transcripts(await hearing) == expected
            assert stream.heard == pytest.approx(speech.seconds)
            assert stream.unheard == 0

    asyncio.run(through())


@pytest.mark.anyio
async def test_a_sample_cut_at_the_end_is_dropped_and_told(asr_model: AsrModel, speech: Speech) -> None:
    async with opened(asr_model) as stream:
        stream.push(speech.pcm[:32_001])
        stream.end()
        await everything(stream)
        assert stream.decoder.warnings() == ["the audio ended within a sample: 1 bytes dropped"]


@pytest.mark.anyio
async def test_so_many_finalizes_wait(asr_model: AsrModel) -> None:
    """Each with audio before it is one more that waits; beyond the bound none is taken, the end always is."""
    async with opened(asr_model, 2) as stream:
        for _ in range(MOST_FINALIZES):
            assert stream.push(b"\0") and stream.finalize()
        assert stream.finalize(), "the same as the last"
        assert stream.push(b"\0") and not stream.finalize()
        stream.end()
        answers = [final.from_finalize for final in transcripts(await everything(stream))]
        assert answers == [True] * MOST_FINALIZES
        assert stream.finalize(), "nothing is left to close"


@pytest.mark.anyio
async def test_marks_keep_their_order_with_the_audio(asr_model: AsrModel, speech: Speech) -> None:
    """A Finalize closes at the byte before which it came, and is answered in its turn. The answer dates from it,
    however much is fed before anybody takes it."""
    half = len(speech.pcm) // 4 * 2
    uneven = half + BYTES // 2 + 200  # the last frame that the listener has is not whole
    said: list[Said] = []
    async with opened(asr_model) as stream, aclosing(stream.batches()) as batches:
        stream.push(speech.pcm[:half])
        while not said:
            said += await anext(batches)
        before = time.monotonic()
        stream.finalize()
        after = time.monotonic()
        stream.push(speech.pcm[half:uneven])
        for _ in range(6000):
            if stream.fed == pytest.approx(uneven / BYTES):
                break
            await asyncio.sleep(0.01)
        stream.push(speech.pcm[uneven:])
        stream.end()
        said += [one async for batch in batches for one in batch]
    first, *rest = [one for one in said if isinstance(one.event, Transcript)]
    assert isinstance(first.event, Transcript) and first.event.from_finalize
    assert first.event.end <= half / BYTES + 1e-6
    assert before <= first.arrived <= after
    assert rest and not any(one.event.from_finalize for one in rest if isinstance(one.event, Transcript))


@pytest.mark.anyio
async def test_the_limit_counts_what_is_not_heard_yet(asr_model: AsrModel) -> None:
    async with opened(asr_model, 2) as stream:
        assert stream.push(bytes(2 * BYTES))
        assert stream.unheard == 2
        assert not stream.push(b"\0")
        assert stream.unheard == 2
        stream.finalize()
        stream.finalize()
        stream.end()
        assert stream.push(bytes(BYTES)), "after the end audio is ignored, not refused"
        finals = transcripts(await everything(stream))
        assert [final.from_finalize for final in finals] == [True], "two Finalizes without audio between them are one"
        assert stream.heard == 2


@pytest.mark.anyio
async def test_the_clock_waits_for_no_model(asr_model: AsrModel, speech: Speech, silence: bytes) -> None:
    """While the model is busy with something else, audio is fed and endpoints are found; up to a bound."""
    seconds = speech.seconds + 2
    async with opened(asr_model) as stream:
        hearing = asyncio.create_task(everything(stream))
        with ExitStack() as busy:
            for lane in [asr_model.engine.lane]:
                busy.enter_context(held(lane))
            stream.push(speech.pcm + 2 * silence)
            for _ in range(6000):
                if stream.fed == pytest.approx(seconds):
                    break
                await asyncio.sleep(0.01)
            assert stream.fed == pytest.approx(seconds), "all of it, with no model call"
            assert 1 < stream.unheard < seconds, "the final is due since the endpoint"
            stream.push(20 * silence)
            await asyncio.sleep(0.5)
            assert stream.fed < seconds + MOST_BEHIND_SECONDS + 1, "the rest waits as bytes"
            assert stream.unheard > 19
        stream.end()
        said = await hearing
    assert isinstance(said[0].event, SpeechStarted)
    assert any(final.text for final in transcripts(said))


@pytest.mark.anyio
async def test_who_sends_faster_than_he_is_heard_is_backlog(
    asr_model: AsrModel, speech: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No final of his goes before those of live sessions while audio of his waits, and no interim is made."""
    engine = asr_model.engine
    for lane in [engine.lane]:
        monkeypatch.setattr(lane, "_stopwatch", time.thread_time)  # a busy machine may stop the lane anywhere
    async with opened(asr_model, interim=True) as stream:
        for _ in range(20):
            stream.push(speech.pcm + bytes(2 * BYTES))
        before = {lane: dict(lane.busy) for lane in [engine.lane]}
        async with aclosing(stream.batches()) as batches:
            async for _ in batches:
                if stream.heard > 5 * (speech.seconds + 2):
                    break
    for lane, busy in before.items():
        spent = {priority: lane.busy[priority] - busy[priority] for priority in Priority}
        assert spent[Priority.BACKLOG] > 0 and spent[Priority.FINAL] == spent[Priority.INTERIM] == 0
        assert spent[Priority.EARLY] < 0.1 * spent[Priority.BACKLOG], "a sequence is got and given back, no more"


@pytest.mark.anyio
async def test_small_frames_gather(asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred frames of a millisecond cost a few calls, and none waits longer than the gathering time."""
    fed: list[int] = []
    hear = Listener.hear

    def counted(listener: Listener, samples: Samples, waiting: float) -> Steps[None]:
        fed.append(len(samples))
        return hear(listener, samples, waiting)

    monkeypatch.setattr(Listener, "hear", counted)
    async with opened(asr_model) as stream:
        hearing = asyncio.create_task(everything(stream))
        began = time.monotonic()
        for _ in range(100):
            stream.push(bytes(32))
            await asyncio.sleep(0.001)
        took = time.monotonic() - began
        for _ in range(6000):
            if not stream.unheard:
                break
            await asyncio.sleep(0.01)
        assert stream.unheard == 0, "heard without a mark"
        stream.end()
        await hearing
    assert sum(fed) == 1600
    assert 2 <= len(fed) <= took / GATHER_SECONDS + 3


@pytest.mark.anyio
async def test_what_need_not_gather_is_due_at_once(asr_model: AsrModel) -> None:
    """As much audio as gathers waits for no moment that others share: somebody's final may hang on it."""
    for _ in range(20):
        async with opened(asr_model) as stream:
            assert stream.push(bytes(int(BYTES * GATHER_SECONDS) - 2))
            moment = stream.due
            assert stream.push(bytes(2))
            assert stream.due <= min(moment, time.monotonic())


@pytest.mark.anyio
async def test_streams_that_are_due_together_share_the_calls_of_voice_activity(
    asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame of each is one call; a call that fails is told to each of them, and the thread lives on."""
    sizes: list[int] = []
    probabilities, broken = VoiceModel.probabilities, False

    def counted(model: VoiceModel, frames: Sequence[Frame]) -> list[float]:
        sizes.append(len(frames))
        if broken:
            raise RuntimeError("no voice today")
        return probabilities(model, frames)

    monkeypatch.setattr(VoiceModel, "probabilities", counted)
    monkeypatch.setattr("daemon.hearing._LOOK_SECONDS", 3600.0)  # A stream is due for nothing but its audio.
    with closing(Ears("ears")) as ears:
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(opened(asr_model, ears=ears)) for _ in range(4)]
            hearing = [asyncio.create_task(everything(stream)) for stream in streams]
            await asyncio.sleep(0)  # All have joined the thread before the first is due.
            for broken in (False, True):
                with ears._wake:  # However slowly they are pushed: the thread looks once all are due.
                    for stream in streams:
                        stream.push(bytes(2 * FRAME))
                    time.sleep(max(0.0, max(stream.due for stream in streams) - time.monotonic()))  # noqa: ASYNC251
                for _ in range(600):
                    if sum(sizes) >= 4:
                        break
                    await asyncio.sleep(0.01)
                assert sizes == [4]
                sizes.clear()
            for task in hearing:
                with pytest.raises(RuntimeError, match="no voice today"):
                    await task
            await asyncio.sleep(0)
            broken = False
            async with opened(asr_model, ears=ears) as another:
                another.push(bytes(BYTES))
                another.end()
                assert transcripts(await everything(another)) == []


@pytest.mark.anyio
async def test_leaving_ends_both_tasks(asr_model: AsrModel, speech: Speech) -> None:
    """Whoever stops in the middle leaves no task, no call and no sequence behind."""
    taken = asr_model.live
    tasks = len(asyncio.all_tasks())
    async with opened(asr_model, interim=True) as stream:
        hearing = asyncio.create_task(everything(stream))
        stream.push(10 * speech.pcm)
        for _ in range(6000):
            if stream.heard > 1:
                break
            await asyncio.sleep(0.01)
        hearing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hearing
        assert len(asyncio.all_tasks()) == tasks
    assert asr_model.live == taken


@pytest.mark.anyio
@pytest.mark.parametrize("piece", [BYTES // 10, 10**9])
async def test_a_microphone_that_is_muted_ends_what_was_said(asr_model: AsrModel, speech: Speech, piece: int) -> None:
    """Its frames stop in the middle of a word: a second later the words are final. The clock stands meanwhile, so what
    follows has the times of its own audio."""
    pcm = speech.pcm[: len(speech.pcm) * 3 // 4]
    async with opened(asr_model) as stream, aclosing(stream.batches()) as batches:
        for at in range(0, len(pcm), piece):
            assert stream.push(pcm[at : at + piece])
        muted = time.monotonic()
        said = list[Said]()
        while not transcripts(said):
            said += await anext(batches)
        (first,) = transcripts(said)
        assert first.text and first.speech_final and not first.from_finalize
        assert first.end == pytest.approx(len(pcm) / BYTES, abs=0.1)
        assert time.monotonic() - muted >= MUTED_SECONDS
        stream.push(speech.pcm)
        stream.end()
        later = transcripts([one async for batch in batches for one in batch])
        assert later[-1].text and later[-1].end <= len(pcm) / BYTES + speech.seconds
        assert later[0].start >= first.end - 0.01


@pytest.mark.anyio
async def test_who_sends_seldom_is_not_taken_for_muted(
    asr_model: AsrModel, speech: Speech, clock: tuple[Clock, Ears]
) -> None:
    """A browser that records in long pieces pauses between them."""
    time, ears = clock
    async with opened(asr_model, ears=ears) as stream:
        hearing = asyncio.create_task(everything(stream))
        for at in range(0, len(speech.pcm), BYTES):
            stream.push(speech.pcm[at : at + BYTES])
            for _ in range(17):
                await time.goes_on(stream, 0.1)
        stream.end()
        await time.goes_on(stream, 0.1)
        assert len(transcripts(await hearing)) == 1


@pytest.mark.anyio
async def test_a_process_that_was_stopped_takes_nobody_for_muted(
    asr_model: AsrModel, speech: Speech, clock: tuple[Clock, Ears]
) -> None:
    """A laptop that slept: what its client sent meanwhile has not been read when it wakes."""
    time, ears = clock
    async with opened(asr_model, ears=ears) as stream:
        hearing = asyncio.create_task(everything(stream))
        half = len(speech.pcm) // 4 * 2
        for at in range(0, half, BYTES // 10):
            stream.push(speech.pcm[at : min(at + BYTES // 10, half)])
            await time.goes_on(stream, 0.1)
        for seconds in (0.2, 60.0, 0.2):
            await time.goes_on(stream, seconds)
        stream.push(speech.pcm[half:])
        stream.end()
        await time.goes_on(stream, 0.1)
        assert len(transcripts(await hearing)) == 1
