"""All voices of the embedded model are equally loud, and no peak is cut off for it."""

import numpy as np
import pytest

from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.output import KNEE, LOUD, Output
from tests.codec.talking import heard, say
from training.tts.speech import loudness

TEXT = (
    "The train to the coast leaves at nine in the morning. Nobody had told the new teacher about the broken heater. "
    "On clear nights you can see the mountains from our roof."
)
VOICES = ("owen", "hugo", "maeve", "clara")


def test_all_voices_are_equally_loud(tts_model: TtsModel) -> None:
    """Within 1 LU of -20 LUFS (ITU-R BS.1770), by the manifest's gains; what is printed tells those of new voices."""
    levels = {voice: loudness(heard(say(tts_model, TEXT, SpeakOptions(voice=voice, seed=5)))) for voice in VOICES}
    print(", ".join(f"{voice} {level:.1f} LUFS" for voice, level in levels.items()))
    assert all(level == pytest.approx(-20, abs=1.0) for level in levels.values()), levels


def test_a_gain_bends_peaks_and_cuts_none() -> None:
    """Twice as loud; what would pass full scale comes near it, in the same order, whatever the cutting."""
    samples = np.linspace(-0.9, 0.9, 2_001, dtype=np.float32)
    output = Output(1.0, 24_000, 24_000, gain=20 * np.log10(2))
    output.feed(np.full(480, LOUD, np.float32))  # The piece has begun by then.
    louder = output.feed(samples)
    assert np.all(np.diff(louder) > 0) and louder.max() < 1
    small = np.abs(2 * samples) < KNEE
    assert np.allclose(louder[small], 2 * samples[small], atol=1e-6)
