"""A daemon is killed and another started under a client that goes on."""

import numpy as np
import pytest

from streaming.model import AsrModel
from tests.clients.conftest import heard_at_once, pcm
from tests.clients.restarting import heard
from tests.clips import RATE, Clip

pytestmark = pytest.mark.anyio


def conversation(clips: list[Clip], seconds: float) -> bytes:
    """Utterances with pauses that end them, linear16 at 16 kHz."""
    parts: list[np.ndarray] = []
    for clip in clips:
        if 2 < clip.seconds < 8 and sum(map(len, parts)) < seconds * RATE:
            parts += [clip.samples, np.zeros(RATE, np.float32)]
    return pcm(np.concatenate(parts))


async def test_the_text_is_that_of_an_unbroken_stream(asr_model: AsrModel, clips: list[Clip]):
    """Killed in the middle of a sentence: not a word is lost, said twice, or another."""
    audio = conversation(clips, 12)
    texts, resumed = await heard(audio, [7.0])
    assert len(resumed) == 1 and resumed[0].missed == 0
    assert texts == heard_at_once(asr_model, audio)
