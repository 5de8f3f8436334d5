"""Settings of the speaking tests."""

from collections.abc import Callable

import pytest
from hypothesis import settings

from codec.model import TtsModel
from codec.talker import TalkerStep
from engines.batching import Owner
from tests.codec.talking import Codes

# Examples run real models on shared cores: their time says nothing about their correctness.
settings.register_profile("speaking", deadline=None)
settings.load_profile("speaking")


@pytest.fixture
def spoken(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> Codes:
    """Codes of every frame made, by the owner (the session)."""
    found: Codes = {}
    frame: Callable[[TalkerStep, Owner], list[int] | None] = tts_model.engine.frame

    def watched(step: TalkerStep, owner: Owner) -> list[int] | None:
        codes = frame(step, owner)
        found.setdefault(owner, []).append(codes or [])
        return codes

    monkeypatch.setattr(tts_model.engine, "frame", watched)
    return found
