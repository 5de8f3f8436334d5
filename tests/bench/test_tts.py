"""The measurement of clears: it ends, with what went wrong where something did."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import tts
from codec.events import AudioChunk, Event
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.speaker import Speaker


@pytest.fixture(scope="module")
def model(tts_directory: Path) -> Iterator[TtsModel]:
    """The embedded speaking model."""
    model = TtsModel(tts_directory, sessions=1, threads=1)
    yield model
    model.close()


def test_clears_are_measured(model: TtsModel) -> None:
    found = tts.clear_ms(model, SpeakOptions(seed=1))
    assert 0 < found["p50"] <= found["p95"] <= found["worst"]
    assert model.live == 0


def test_a_step_that_fails_ends_the_measurement(model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = Speaker.step, list[float | None]()

    def failing(speaker: Speaker, buffered: float | None = None) -> list[Event]:
        steps.append(buffered)
        if len(steps) > 3:
            raise MemoryError("no room for a frame")
        return step(speaker, buffered)

    monkeypatch.setattr(Speaker, "step", failing)
    with pytest.raises(MemoryError, match="no room"):
        tts.clear_ms(model, SpeakOptions(seed=1))
    assert model.live == 0


def test_a_voice_that_says_nothing_ends_the_measurement(model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Speaker.step

    def silent(speaker: Speaker, buffered: float | None = None) -> list[Event]:
        return [event for event in step(speaker, buffered) if not isinstance(event, AudioChunk)]

    monkeypatch.setattr(Speaker, "step", silent)
    monkeypatch.setattr(tts, "CLEAR_LIMIT", 0.2)
    with pytest.raises(TimeoutError, match=r"no AudioChunk came for 0\.2 s"):
        tts.clear_ms(model, SpeakOptions(seed=1))
    assert model.live == 0
