"""A daemon that is killed again and again: the client that goes on has the text of an unbroken stream."""

import asyncio
import os
import random
import time

from streaming.model import AsrModel
from tests.clients.restarting import heard
from tests.clients.test_restarts import conversation, unbroken
from tests.clips import Clip

KILLS = int(os.environ.get("HEARSAY_SOAK_KILLS", "20"))


def test_killed_twenty_times(asr_model: AsrModel, clips: list[Clip]) -> None:
    """At any moment; each kill meets a session."""
    audio = conversation(clips, 6.0 * KILLS)
    seconds = len(audio) / 32_000
    chance = random.Random(20)
    began = time.perf_counter()
    texts, resumed = asyncio.run(heard(audio, [chance.uniform(1, seconds - 1) for _ in range(KILLS)]))
    print(
        f"\n{KILLS} kills in {seconds:.0f} s of audio: {len(resumed)} sessions gone on, "
        f"{sum(one.resent for one in resumed):.0f} s sent again, {sum(one.missed for one in resumed):.1f} s missed, "
        f"{len(texts)} finals, in {time.perf_counter() - began:.0f} s"
    )
    assert len(resumed) == KILLS and not any(one.missed for one in resumed)
    assert texts == unbroken(asr_model, audio)
