"""What the speaking tests share."""

from collections.abc import Callable

import pytest

from codec.model import TtsModel
from codec.talker import TalkerState, TalkerStep
from engines.lane import Steps
from tests.codec.talking import Codes


@pytest.fixture
def spoken(tts_model: TtsModel, monkeypatch: pytest.MonkeyPatch) -> Codes:
    """Codes of every frame made, by piece."""
    found: Codes = {}
    pieces = list[TalkerState]()  # As long as they live no other has their identity.
    frame: Callable[[TalkerStep], Steps[list[int] | None]] = tts_model.engine.frame

    def watched(step: TalkerStep) -> Steps[list[int] | None]:
        codes = yield from frame(step)
        found.setdefault(id(step.talker), []).append(codes or [])
        pieces.append(step.talker)
        return codes

    monkeypatch.setattr(tts_model.engine, "frame", watched)
    return found
