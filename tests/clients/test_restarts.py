"""A daemon is killed and another started under a client that goes on."""

import numpy as np
import pytest

from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clients.conftest import pcm
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


def unbroken(model: AsrModel, audio: bytes) -> list[str]:
    """The texts of the finals, heard in this process at once."""
    listener = model.listener(ListenOptions(interim=False))
    listener.feed(np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32768))
    listener.finish()
    events = listener.drain()
    listener.close()
    return [event.text for event in events if isinstance(event, Transcript) and event.is_final and event.text]


async def test_the_text_is_that_of_an_unbroken_stream(asr_model: AsrModel, clips: list[Clip]):
    """Killed in the middle of a sentence: not a word is lost, said twice, or another."""
    audio = conversation(clips, 12)
    texts, resumed = await heard(audio, [7.0])
    assert len(resumed) == 1 and resumed[0].missed == 0
    assert texts == unbroken(asr_model, audio)
