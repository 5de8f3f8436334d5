"""What ``/v1/speak`` is asked for: Deepgram's query parameters and a few of ours, checked before anything is made.

A stream's request is its query; a file's is its query and a JSON body with the text.
"""

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec
from starlette.types import Receive, Scope

from audio import encoder
from audio.encoder import MEDIA_TYPES, RAW, Encoder
from codec.model import TtsModel
from codec.options import SpeakOptions
from daemon import body
from daemon.config import Settings
from daemon.loading import Loaded
from daemon.parameters import SEED_BITS, SPEAKING_ALIASES, asked, flag, number, whole, wrong
from daemon.spoken_file import MAX_BYTES, FileRequest, check_text
from engines.sessions import OptionError

HONOURED: Final = frozenset({
    "model", "encoding", "sample_rate", "speed", "container", "mip_opt_out",
    "voice", "language", "instructions", "seed", "normalise", "marks",
})  # fmt: skip
NOT_HONOURED: Final = frozenset({"bit_rate", "callback", "callback_method", "tag", "expressivity"})
"""Deepgram's parameters that are accepted and change nothing."""

_FILES: Final = "; files come from POST /v1/speak and POST /v1/audio/speech"
_CLOUD: Final = re.compile(r"(?:aura(?:-\d+)?|flux)-[a-z]+-([a-z]{2})")
"""Deepgram's names of voices, which end in a language."""


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
    _, one, warnings = asked(query_string, model, SPEAKING_ALIASES, HONOURED, NOT_HONOURED)
    encoding = one.get("encoding", "linear16").lower()
    if encoding not in RAW:
        raise wrong("encoding", f"encoding: {encoding!r} is none of {', '.join(RAW)}{_FILES}")
    if one.get("container", "none").lower() != "none":
        raise wrong("container", f"container: a stream is raw audio (none){_FILES}")
    rate = whole(one, "sample_rate", _SHAPES[encoding].rate)
    return SpeakRequest(_options(one, rate), encoding, rate, flag(one, "marks", False), tuple(warnings))


def _options(one: Mapping[str, str], rate: int) -> SpeakOptions:
    """What the parameters ask of the model, which itself checks voice and language.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    cloud = _CLOUD.fullmatch(one.get("model", "").lower())
    try:
        return SpeakOptions(
            voice=one.get("voice") or None,
            language=one.get("language") or (cloud[1] if cloud else None),
            instructions=one.get("instructions") or None,
            speed=number(one, "speed", 1.0),
            seed=whole(one, "seed", secrets.randbits(SEED_BITS), digits=19),
            sample_rate=rate,
            normalise=flag(one, "normalise", True),
        )
    except OptionError as error:
        raise wrong(error.field, str(error)) from None


# ------------------------------------------------------------------------------ one text, one file

FILE_HONOURED: Final = HONOURED - {"marks"} | {"bit_rate"}
FILE_NOT_HONOURED: Final = frozenset({"tag", "callback_method", "expressivity", "priority"})
"""Deepgram's parameters that are accepted and change nothing."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What an encoding may look like."""

    rate: int
    """Hz, by default."""
    containers: tuple[str, ...] = ("none",)
    """The first is the default."""
    rates: tuple[int, ...] = ()
    """All that there are; without any, whatever the model's output can be turned into."""
    bit_rates: tuple[int, int] | None = None
    """Least and most."""


_MPEG_RATES: Final = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_RAW: Final = ("wav", "none")
_SHAPES: Final = {
    "mp3": _Shape(22_050, rates=_MPEG_RATES, bit_rates=(32_000, 160_000)),
    "linear16": _Shape(24_000, _RAW),
    "float32": _Shape(24_000, _RAW),
    "mulaw": _Shape(8_000, _RAW),
    "alaw": _Shape(8_000, _RAW),
    "opus": _Shape(48_000, ("ogg",), (8_000, 12_000, 16_000, 24_000, 48_000), (6_000, 256_000)),
    "flac": _Shape(24_000),
    "aac": _Shape(22_050, rates=_MPEG_RATES, bit_rates=(16_000, 192_000)),
}
"""The first is the default, as are its sample rates, as in Deepgram's cloud."""
_RAW_TYPES: Final = {"linear16": "audio/pcm", "float32": "audio/pcm", "mulaw": "audio/PCMU", "alaw": "audio/PCMA"}


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    text: str


_decoder: Final = msgspec.json.Decoder(_Body)


async def file_request(scope: Scope, receive: Receive, settings: Settings, loaded: Loaded[TtsModel]) -> FileRequest:
    """Read and check query and body of ``POST /v1/speak``.

    Raises:
        Refused: 400 naming the parameter or field, 408 standing still, 413 too large.
        ClientDisconnect: the client left.
    """
    query, others = scope["query_string"], FILE_NOT_HONOURED | {"callback"}
    _, one, _ = asked(query, loaded.name, SPEAKING_ALIASES, FILE_HONOURED, others)
    if one.get("callback"):
        raise wrong("callback", "callback: the audio comes in the answer and nowhere else")
    encoding = one.get("encoding", next(iter(_SHAPES))).lower()
    if encoding not in _SHAPES:
        raise wrong("encoding", f"encoding: {encoding!r} is none of {', '.join(_SHAPES)}")
    shape = _SHAPES[encoding]
    container = one.get("container", shape.containers[0]).lower()
    if container not in shape.containers:
        raise wrong("container", f"container: {encoding} comes in {' or '.join(shape.containers)}, not {container!r}")
    rate = whole(one, "sample_rate", shape.rate)
    if shape.rates and rate not in shape.rates:
        raise wrong("sample_rate", f"sample_rate: {encoding} has {', '.join(map(str, shape.rates))} Hz, not {rate}")
    bit_rate = whole(one, "bit_rate", 0) if "bit_rate" in one else None
    if bit_rate is not None:
        if shape.bit_rates is None:
            raise wrong("bit_rate", f"bit_rate: {encoding} has none")
        least, most = shape.bit_rates
        if not least <= bit_rate <= most:
            raise wrong("bit_rate", f"bit_rate: {bit_rate} lies outside {least}…{most} of {encoding}")
    options = _options(one, rate)
    data = await body.whole(scope, receive, settings, MAX_BYTES, "a text of max_text_characters fits")
    text = body.decoded(data, _decoder).text
    check_text("text", text, settings)
    headers = {
        "dg-request-id": str(uuid.uuid4()),
        "dg-model-name": loaded.name,
        "dg-model-uuid": loaded.uuid,
        "dg-char-count": str(len(text)),
    }
    return FileRequest(
        text,
        "text",
        options,
        partial(_encoder, encoding, container, rate, bit_rate),
        _media_type(encoding, container, rate),
        headers=tuple((name.encode(), value.encode()) for name, value in headers.items()),
    )


def _media_type(encoding: str, container: str, rate: int) -> str:
    if container == "wav":
        return MEDIA_TYPES["wav"]
    return f"{_RAW_TYPES[encoding]};rate={rate}" if encoding in _RAW_TYPES else MEDIA_TYPES[encoding]


def _encoder(encoding: str, container: str, rate: int, bit_rate: int | None) -> Encoder:
    if encoding in _RAW_TYPES:
        return encoder.wav(encoding, rate) if container == "wav" else encoder.raw(encoding, rate)
    return encoder.file(encoding, rate, bit_rate)
