"""The options of voice activity: where speech begins, and how much audio before that counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engines.lane import at_once
from engines.sessions import OptionError
from streaming.events import SpeechStarted, Transcript
from streaming.model import AsrModel
from streaming.options import MAX_PREROLL, ListenOptions
from streaming.vad import FRAME, Voice, VoiceActivity, VoiceState
from tests.clips import RATE, Clip


class Steady:
    """A judge that finds every frame equally likely to be speech."""

    def __init__(self, probability: float) -> None:
        self.likely = probability

    def probabilities(self, frames: Sequence[tuple[VoiceState, Any]]) -> list[float]:
        """The same for all."""
        return [self.likely for _ in frames]


@pytest.mark.parametrize(
    ("field", "value"), [("threshold", 0.05), ("threshold", 1.0), ("preroll", -0.1), ("preroll", 0.6)]
)
def test_what_lies_outside_its_limits_is_named(field: str, value: float) -> None:
    """An option outside its bounds is refused before any audio arrives, by an error that names it."""
    with pytest.raises(OptionError) as error:
        ListenOptions(**{field: value})
    assert error.value.field == field


@pytest.mark.parametrize(("threshold", "voice"), [(0.3, Voice.SPEECH), (0.5, Voice.SPEECH), (0.7, Voice.SILENCE)])
def test_speech_begins_at_the_threshold_of_the_session(threshold: float, voice: Voice) -> None:
    """Frames with a probability of 0.6 are speech to one session and silence to another."""
    turns = at_once(VoiceActivity(Steady(0.6), threshold).feed(np.zeros(8 * FRAME, np.float32)))
    assert turns[-1].voice is voice


@pytest.mark.parametrize("preroll", [0.0, 0.2, MAX_PREROLL])
def test_an_utterance_begins_so_much_before_its_onset(asr_model: AsrModel, clips: list[Clip], preroll: float) -> None:
    """An utterance begins ``preroll`` seconds before its onset, or with the first sample."""
    clip = min(clips, key=lambda clip: abs(clip.seconds - 4))
    listener = asr_model.listener(ListenOptions(preroll=preroll, interim=False))
    listener.feed(np.concatenate([np.zeros(RATE, np.float32), clip.samples]))
    listener.finish()
    events = listener.drain()
    listener.close()
    onset = next(event.at for event in events if isinstance(event, SpeechStarted))
    first = next(event for event in events if isinstance(event, Transcript))
    assert onset - first.start == pytest.approx(preroll, abs=1e-3)
