"""An hour of speech through one listener, twice: without interims, and with a tick every two seconds of audio."""

import os
import time

import numpy as np
import psutil
import pytest

from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import RATE, Clip
from tests.streaming.test_listener import continuous

MINUTES = int(os.environ.get("HEARSAY_SOAK_MINUTES", "60"))
GROWTH = 8_000_000
"""Bytes that resident memory may differ between the tenth part and the end: allocator noise."""


@pytest.mark.parametrize("interim", [False, True])
def test_memory_stays_flat_and_nothing_is_lost(asr_model: AsrModel, clips: list[Clip], interim: bool) -> None:
    """Resident memory after six minutes and after sixty differ by noise; segments follow each other without a gap."""
    speech = continuous(clips, 300)
    process = psutil.Process()
    listener = asr_model.listener(ListenOptions(interim=interim, endpointing=None))
    memory: list[int] = []
    segments: list[Transcript] = []
    began = time.perf_counter()
    fed = 0
    for minute in range(MINUTES):
        at = (minute % 5) * 60 * RATE
        for start in range(at, at + 60 * RATE, 2 * RATE):
            block = speech[start : start + 2 * RATE]
            if not len(block):
                block = np.zeros(2 * RATE, np.float32)
            fed += len(block)
            segments += [e for e in listener.feed(block) if isinstance(e, Transcript) and e.is_final]
        memory.append(process.memory_info().rss)
    segments += [e for e in listener.finish() if isinstance(e, Transcript) and e.is_final]
    seconds = time.perf_counter() - began
    first, last = memory[max(MINUTES // 10 - 1, 0)], memory[-1]
    print(
        f"\n{MINUTES} minutes, interim={interim}: {seconds:.0f} s ({MINUTES * 60 / seconds:.1f}x real time), "
        f"{len(segments)} segments, resident {first / 1e6:.1f} MB → {last / 1e6:.1f} MB"
    )
    assert abs(last - first) < GROWTH
    assert segments[-1].end == pytest.approx(fed / RATE, abs=1.0)
    gaps = [b.start - a.end for a, b in zip(segments, segments[1:], strict=False) if not a.speech_final]
    assert max(gaps, default=0.0) < 1e-6
    assert listener.work.stem_chunks <= fed / RATE * 1.2
