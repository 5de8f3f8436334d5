"""What conversations over /v1/realtime are tested with: something said."""

import pytest

from tests.daemon.realtime import at_24_khz
from tests.daemon.support import Speech


@pytest.fixture(scope="module")
def pcm(speech: Speech) -> bytes:
    """The recording at 24 kHz, with a second of silence after it."""
    return at_24_khz(speech.pcm) + b"\0" * 48_000
