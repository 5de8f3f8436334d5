"""What ``/v1/speak`` is asked for: Deepgram's query parameters and a few of ours, checked before the upgrade."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from codec.options import OptionError, SpeakOptions
from daemon import parameters
from daemon.encoder import RAW
from daemon.names import SPEAKING_ALIASES, check_model
from daemon.parameters import flag, number, whole, wrong

HONOURED: Final = frozenset({
    "model", "encoding", "sample_rate", "speed", "container", "mip_opt_out",
    "voice", "language", "instructions", "seed", "normalise", "marks",
})  # fmt: skip
NOT_HONOURED: Final = frozenset({"bit_rate", "callback", "callback_method", "tag"})
"""Deepgram's parameters that are accepted and change nothing."""

RATES: Final = {"linear16": 24_000, "float32": 24_000, "mulaw": 8_000, "alaw": 8_000}
"""The default sample rate of each encoding, as in Deepgram's cloud."""

SEED_BITS: Final = 53
"""Of the seeds we draw: what every JSON reader keeps exactly."""

_FILES: Final = "; files come from POST /v1/speak and POST /v1/audio/speech"
_AURA: Final = re.compile(r"aura(-\d+)?-[a-z]+-([a-z]{2})")


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """A checked request for one stream."""

    options: SpeakOptions
    encoding: str
    sample_rate: int
    marks: bool
    """Tell when each piece was spoken."""
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str) -> SpeakRequest:
    """Check a query string; ``model`` is the name of the loaded one, which itself checks voice and language.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    given = parameters.read(query_string, HONOURED, NOT_HONOURED)
    one = parameters.last(given)
    check_model(one.get("model", ""), model, SPEAKING_ALIASES, status=400)
    encoding = one.get("encoding", "linear16").lower()
    if encoding not in RAW:
        raise wrong("encoding", f"encoding: {encoding!r} is none of {', '.join(RAW)}{_FILES}")
    if one.get("container", "none").lower() != "none":
        raise wrong("container", f"container: a stream is raw audio (none){_FILES}")
    rate = whole(one, "sample_rate", RATES[encoding])
    warnings = parameters.not_honoured(given, NOT_HONOURED)
    return SpeakRequest(speak_options(one, rate), encoding, rate, flag(one, "marks", False), tuple(warnings))


def speak_options(one: Mapping[str, str], rate: int) -> SpeakOptions:
    """What the parameters ask of the model, which itself checks voice and language.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    aura = _AURA.fullmatch(one.get("model", "").lower())
    try:
        return SpeakOptions(
            voice=one.get("voice") or None,
            language=one.get("language") or (aura[2] if aura else None),
            instructions=one.get("instructions") or None,
            speed=number(one, "speed", 1.0),
            seed=whole(one, "seed", secrets.randbits(SEED_BITS), digits=19),
            sample_rate=rate,
            normalise=flag(one, "normalise", True),
        )
    except OptionError as error:
        raise wrong(error.field, str(error)) from None
