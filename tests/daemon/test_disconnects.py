"""Clients that vanish: nothing of theirs is left, and the others hear what they would hear alone."""

import pytest

from codec.model import TtsModel
from daemon.loading import Loaded, Models
from streaming.model import AsrModel
from tests.daemon.disconnects import DOORS, abrupt_disconnects, whole
from tests.daemon.support import Speech

DISCONNECTS = 24


@pytest.mark.parametrize("name", DOORS)
def test_abrupt_disconnects(name: str, asr_model: AsrModel, tts_model: TtsModel, speech: Speech) -> None:
    models = Models(Loaded.of(asr_model), Loaded.of(tts_model))
    with whole(models) as (background, chat):
        abrupt_disconnects(background, models, DOORS[name], speech, DISCONNECTS)
        registry = background.hub.metrics.registry
        opened = sum(
            sample.value
            for family in registry.collect()
            for sample in family.samples
            if sample.name == "hearsay_sessions_opened_total"
        )
        assert opened > DISCONNECTS / 4
        assert chat.seen.broken_off or name != "realtime", "answers, too, were broken off"
