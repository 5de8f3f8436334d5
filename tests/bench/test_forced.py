"""Sessions whose texts are as long as their audio, whatever is heard."""

import pytest

from bench.clips import pcm16, samples_of
from bench.forced import Forced
from streaming import segment
from streaming.events import Transcript
from streaming.model import AsrModel
from streaming.options import ListenOptions
from tests.clips import DATA


def test_a_text_grows_with_its_audio_and_ends(asr_model: AsrModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many tokens a second give finals twice as long."""
    monkeypatch.setattr(segment, "Segment", Forced)
    rate = asr_model.sample_rate
    speech = next(iter(samples_of(*pcm16(DATA / "recordings" / "lj.opus"), rate)))[: 20 * rate]
    found: dict[float, list[Transcript]] = {}
    for tokens in (2.0, 4.0):
        monkeypatch.setattr(Forced, "tokens", tokens)
        listener = asr_model.listener(ListenOptions(endpointing=None))
        for start in range(0, len(speech), rate // 2):
            listener.feed(speech[start : start + rate // 2])
        listener.finish()
        found[tokens] = [event for event in listener.drain() if isinstance(event, Transcript)]
        listener.close()
    slow, fast = ([len(event.text) for event in found[tokens] if event.is_final] for tokens in (2.0, 4.0))
    assert len(slow) == len(fast) > 0
    for less, more in zip(slow, fast, strict=True):
        assert 1.5 * less < more < 2.5 * less
