"""What the speaking tests share."""

from collections.abc import Callable

import pytest

from codec.model import TtsModel
from codec.talker import TalkerStep
from engines.lane import Owner
from tests.codec.talking import Codes


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
