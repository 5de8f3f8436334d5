"""The session between bytes and events: order, bounds, and cuts that change nothing."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.calls import Hearing
from daemon.session import GATHER_SECONDS, MOST_FINALIZES, Batch, Mark, Session
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.pcm import PcmDecoder
from tests.daemon.support import RATE, Speech

BYTES = 2 * RATE


async def hear(model: AsrModel, pcm: bytes, cuts: list[int], pauses: bool) -> tuple[list[Batch], Session]:
    """Push ``pcm`` cut at ``cuts``, with or without letting the session hear in between."""
    with ThreadPoolExecutor(2) as pool:
        hearing = Hearing(pool, model.listener(ListenOptions(interim=False)))
        session = Session(hearing, PcmDecoder("linear16", RATE), BYTES, RATE, 300)
        batches: list[Batch] = []

        async def consume() -> None:
            async for batch in session.batches():
                batches.append(batch)

        try:
            consuming = asyncio.create_task(consume())
            edges = [0, *sorted(cuts), len(pcm)]
            for start, end in zip(edges, edges[1:], strict=False):
                assert session.push(pcm[start:end])
                if pauses:
                    await asyncio.sleep(0)
            session.end()
            await consuming
        finally:
            await hearing.close()
        return batches, session


def texts(batches: list[Batch]) -> list[Transcript]:
    """The finals."""
    return [e for batch in batches for e in batch.events if isinstance(e, Transcript) and e.is_final]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), pauses=st.booleans())
def test_cuts_change_no_final(asr_model: AsrModel, speech: Speech, data: st.DataObject, pauses: bool) -> None:
    """Whatever the frames, odd byte counts included, the finals are those of the samples fed at once."""
    listener = asr_model.listener(ListenOptions(interim=False))
    events = [*listener.feed(np.frombuffer(speech.pcm, "<i2") / np.float32(32768)), *listener.finish()]
    expected = [e for e in events if isinstance(e, Transcript) and e.is_final]
    assert any(e.text for e in expected)
    cuts = data.draw(st.lists(st.integers(0, len(speech.pcm)), max_size=40))
    batches, session = asyncio.run(hear(asr_model, speech.pcm, cuts, pauses))
    assert texts(batches) == expected
    assert session.heard == pytest.approx(speech.seconds)
    assert session.unheard == 0


def test_a_sample_cut_at_the_end_is_dropped_and_told(asr_model: AsrModel, speech: Speech) -> None:
    _, session = asyncio.run(hear(asr_model, speech.pcm[:32_001], [], False))
    assert session.cut_bytes == 1


@pytest.mark.anyio
async def test_so_many_finalizes_wait(asr_model: AsrModel) -> None:
    """Each with audio before it is one more that waits; beyond the bound none is taken, the end always is."""
    with ThreadPoolExecutor(2) as pool:
        hearing = Hearing(pool, asr_model.listener())
        session = Session(hearing, PcmDecoder("linear16", RATE), BYTES, RATE, 2)
        for _ in range(MOST_FINALIZES):
            assert session.push(b"\0") and session.finalize()
        assert session.finalize(), "the same as the last"
        assert session.push(b"\0") and not session.finalize()
        session.end()
        marks = [batch.mark async for batch in session.batches()]
        assert marks == [*[Mark.FINALIZE] * MOST_FINALIZES, Mark.END]
        assert session.finalize(), "nothing is left to close"
        await hearing.close()


@pytest.mark.anyio
async def test_the_limit_counts_what_is_not_heard_yet(asr_model: AsrModel) -> None:
    with ThreadPoolExecutor(2) as pool:
        hearing = Hearing(pool, asr_model.listener())
        session = Session(hearing, PcmDecoder("linear16", RATE), BYTES, RATE, 2)
        assert session.push(bytes(2 * BYTES))
        assert session.unheard == 2
        assert not session.push(b"\0")
        assert session.unheard == 2
        session.finalize()
        session.finalize()
        session.end()
        assert session.push(bytes(BYTES)), "after the end audio is ignored, not refused"
        marks = [batch.mark async for batch in session.batches()]
        assert marks == [Mark.FINALIZE, Mark.END], "two Finalizes without audio between them are one"
        assert session.heard == 2
        await hearing.close()


@pytest.mark.anyio
async def test_a_backlog_is_heard_in_slices(asr_model: AsrModel) -> None:
    with ThreadPoolExecutor(2) as pool:
        hearing = Hearing(pool, asr_model.listener())
        session = Session(hearing, PcmDecoder("linear16", RATE), BYTES, RATE, 300)
        assert session.push(bytes(20 * BYTES))
        session.end()
        assert [batch.heard async for batch in session.batches()] == [8, 8, 4]
        await hearing.close()


@pytest.mark.anyio
async def test_small_frames_gather(asr_model: AsrModel) -> None:
    """A hundred frames of a millisecond cost a few calls, and none waits longer than the gathering time."""
    with ThreadPoolExecutor(2) as pool:
        hearing = Hearing(pool, asr_model.listener())
        session = Session(hearing, PcmDecoder("linear16", RATE), BYTES, RATE, 300)
        batches: list[Batch] = []

        async def consume() -> None:
            async for batch in session.batches():
                batches.append(batch)

        consuming = asyncio.create_task(consume())
        began = time.monotonic()
        for _ in range(100):
            session.push(bytes(32))
            await asyncio.sleep(0.001)
        took = time.monotonic() - began
        for _ in range(6000):
            if not session.unheard:
                break
            await asyncio.sleep(0.01)
        assert session.unheard == 0, "heard without a mark"
        session.end()
        await consuming
        assert 2 <= len(batches) <= took / GATHER_SECONDS + 3
        await hearing.close()
