"""Speaking over the wire for a long time: clients that vanish, with and without interrupting first."""

import os
import time
from pathlib import Path

import psutil

from codec.model import TtsModel
from daemon.loading import Loaded, Models
from engines.store import find
from streaming.model import AsrModel
from tests.daemon.deepgram.test_speak_ends import abrupt_ends
from tests.daemon.support import running

DISCONNECTS = int(os.environ.get("HEARSAY_SOAK_DISCONNECTS", "1000"))
LEFT_BEHIND = 60_000
"""Bytes a vanished client may cost on average: allocator noise; one speaker's codec state alone is more."""


def test_a_thousand_vanish_while_they_are_spoken_to(asr_model: AsrModel, tmp_path: Path) -> None:
    """No thread, descriptor, speaker, sequence or place is left; memory stays what as many before made it."""
    model = TtsModel(find("pocket-tts-en"), sessions=8, voices=tmp_path)
    process = psutil.Process()
    with running(Models(Loaded.of(asr_model), Loaded.of(model)), speakers=8) as background:
        abrupt_ends(background, model, DISCONNECTS)  # every thread's arena fills once
        before = process.memory_info().rss
        began = time.perf_counter()
        abrupt_ends(background, model, DISCONNECTS)
        after = process.memory_info().rss
    model.close()
    seconds = time.perf_counter() - began
    print(f"\n{DISCONNECTS} vanished in {seconds:.0f} s, resident {before / 1e6:.1f} MB → {after / 1e6:.1f} MB")
    assert after - before < DISCONNECTS * LEFT_BEHIND
