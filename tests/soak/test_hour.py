"""An hour of speech through one listener, twice: without interims, and with a tick every two seconds of audio."""

import os
import time

import numpy as np
import pytest

from streaming.events import Event, Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import RATE, Clip
from tests.soak.memory import Memory
from tests.streaming.listening import continuous, finish, hear

MINUTES = int(os.environ.get("HEARSAY_SOAK_MINUTES", "60"))
GROWTH = 8_000_000
"""Bytes that resident memory may differ between the tenth part and the end, and the C heap may grow."""
BLOCKS = 5_000
"""Python's memory blocks that may be added."""


@pytest.mark.parametrize("interim", [False, True])
def test_memory_stays_flat_and_nothing_is_lost(asr_model: AsrModel, clips: list[Clip], interim: bool) -> None:
    """Resident memory after six minutes and after sixty differ by noise; segments follow each other without a gap."""
    speech = continuous(clips, 300)
    listener = asr_model.listener(ListenOptions(interim=interim, endpointing=None))
    memory = Memory()
    finals: list[tuple[float, float, bool]] = []
    """Start, end and whether speech ended; the words would be growth of the test's own."""

    def note(events: list[Event]) -> None:
        finals.extend((e.start, e.end, e.speech_final) for e in events if isinstance(e, Transcript) and e.is_final)

    began = time.perf_counter()
    fed = 0
    for minute in range(MINUTES):
        at = (minute % 5) * 60 * RATE
        for start in range(at, at + 60 * RATE, 2 * RATE):
            block = speech[start : start + 2 * RATE]
            if not len(block):
                block = np.zeros(2 * RATE, np.float32)
            fed += len(block)
            note(hear(listener, block))
        memory.sample()
    note(finish(listener))
    seconds = time.perf_counter() - began
    print(
        f"\n{MINUTES} minutes, interim={interim}: {seconds:.0f} s ({MINUTES * 60 / seconds:.1f}x real time), "
        f"{len(finals)} segments; {memory}; {listener.work}"
    )
    assert abs(memory.growth(0)) < GROWTH
    assert memory.growth(1) < GROWTH and memory.growth(2) < BLOCKS
    assert asr_model.live == 0
    assert finals[-1][1] == pytest.approx(fed / RATE, abs=1.0)
    gaps = [after[0] - end for (_, end, ended), after in zip(finals, finals[1:], strict=False) if not ended]
    assert max(gaps, default=0.0) < 1e-6
    assert listener.work.stem_chunks <= fed / RATE * 1.2
