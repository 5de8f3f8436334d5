"""What ``/v1/speak`` is asked for: Deepgram's query parameters and a few of ours, checked before anything is made.

A stream's request is its query; a file's is its query and a JSON body with the text.
"""

import re
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope

from audio import encoder
from audio.encoder import MEDIA_TYPES, RAW, Encoder
from codec.model import TtsModel
from codec.options import HOLDS, Hold, SpeakOptions
from daemon import body
from daemon.config import Settings
from daemon.fields import Fields
from daemon.loading import Loaded
from daemon.names import language
from daemon.parameters import SEED_BITS, asked, flag, number, whole, wrong
from daemon.spoken_file import MAX_BYTES, FileRequest, check_text
from engines.sessions import OptionError

HONOURED: Final = frozenset({
    "model", "encoding", "sample_rate", "speed", "container", "mip_opt_out",
    "voice", "language", "instructions", "seed", "normalise", "marks", "pauses", "hold",
})  # fmt: skip
ELSEWHERE: Final = {
    "lang": "language", "lang_code": "language", "language_code": "language", "model_id": "model", "voice_id": "voice",
    "speaker": "voice", "instruct": "instructions", "normalize": "normalise", "samplerate": "sample_rate",
}  # fmt: skip
"""Names that other servers give to some parameters, each with its name here."""
FIELDS: Final = Fields(HONOURED, ELSEWHERE, code="invalid_query")

_FILES: Final = "; files come from POST /v1/speak and POST /v1/audio/speech"
_CLOUD: Final = re.compile(r"(?:aura(?:-\d+)?|flux)-[a-z]+-([a-z]{2})")
"""The form of the names of Deepgram's voices, which end in a language."""


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """A checked request for one stream."""

    options: SpeakOptions
    encoding: str
    sample_rate: int
    marks: bool
    """Whether the client is told when each piece was spoken."""
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str, *, strict: bool = False) -> SpeakRequest:
    """Check a query string.

    Args:
        query_string: as it stands in the URL.
        model: name of the loaded model, which itself checks voice and language.
        strict: refuse what would be ignored.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    query = asked(query_string, FIELDS, model, "speaks", strict=strict)
    one = query.one
    encoding = one.get("encoding", "linear16").lower()
    if encoding not in RAW:
        raise wrong("encoding", f"encoding: {encoding!r} is none of {', '.join(RAW)}{_FILES}")
    if one.get("container", "none").lower() != "none":
        raise wrong("container", f"container: a stream is raw audio (none){_FILES}")
    rate = whole(one, "sample_rate", _SHAPES[encoding].rate)
    return SpeakRequest(_options(one, rate), encoding, rate, flag(one, "marks", False), tuple(query.warnings))


def _options(one: Mapping[str, str], rate: int) -> SpeakOptions:
    """What the parameters ask of the model, which itself checks voice and language.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    cloud = _CLOUD.fullmatch(one.get("model", "").lower())
    try:
        return SpeakOptions(
            voice=one.get("voice") or None,
            language=language(one.get("language")) or (cloud[1] if cloud else None),
            instructions=one.get("instructions") or None,
            speed=number(one, "speed", 1.0),
            seed=whole(one, "seed", secrets.randbits(SEED_BITS), digits=19),
            sample_rate=rate,
            normalise=flag(one, "normalise", True),
            pauses=number(one, "pauses", 1.0) if "pauses" in one else None,
            hold=hold(one),
            word_times=flag(one, "marks", False),
        )
    except OptionError as error:
        raise wrong(error.field, str(error)) from None


def hold(one: Mapping[str, str]) -> Hold:
    """The value of ``hold``.

    Raises:
        Refused: 400 naming what it may be.
    """
    asked_for = one.get("hold", "auto").lower()
    for known in HOLDS:
        if asked_for == known:
            return known
    raise wrong("hold", f"hold: {asked_for!r} is none of {', '.join(HOLDS)}")


# ------------------------------------------------------------------------------ one text, one file

FILE_HONOURED: Final = HONOURED - {"marks"} | {"bit_rate"}
_FILE_FIELDS: Final = Fields(FILE_HONOURED | {"callback"}, ELSEWHERE, code="invalid_query")


@dataclass(frozen=True, slots=True)
class _Shape:
    """The rates, containers and bit rates that an encoding may have."""

    rate: int
    """Hertz, where the request does not tell."""
    containers: tuple[str, ...] = ("none",)
    """The containers. The first is the default."""
    rates: tuple[int, ...] = ()
    """The sample rates; where there are none, every rate into which the model's output can be turned."""
    bit_rates: tuple[int, int] | None = None
    """The least and the most bits a second."""


_MPEG_RATES: Final = (16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
"""Sample rates of MPEG-1 and MPEG-2 audio that LAME encodes at these bit rates."""
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
"""The encodings. The first is the default; this and the default sample rates are as in Deepgram's cloud."""
_RAW_TYPES: Final = {"linear16": "audio/pcm", "float32": "audio/pcm", "mulaw": "audio/PCMU", "alaw": "audio/PCMA"}


class _Body(msgspec.Struct):
    text: str


_TEXT: Final = Fields(frozenset({"text"}), {"input": "text"}, code="invalid_body")
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


async def file_request(scope: Scope, receive: Receive, settings: Settings, loaded: Loaded[TtsModel]) -> FileRequest:
    """Read and check query and body of ``POST /v1/speak``.

    Raises:
        Refused: 400 naming the parameter or field, 408 standing still, 413 too large.
        ClientDisconnect: the client left.
    """
    query = asked(scope["query_string"], _FILE_FIELDS, loaded.name, "speaks", strict=settings.strict)
    one = query.one
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
    said = _TEXT.understood(body.decoded(data, _decoder).items(), strict=settings.strict)
    text = body.converted({name: values[-1] for name, values in said.values.items()}, _Body).text
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
        warnings=(*query.warnings, *said.warnings),
    )


def _media_type(encoding: str, container: str, rate: int) -> str:
    if container == "wav":
        return MEDIA_TYPES["wav"]
    return f"{_RAW_TYPES[encoding]};rate={rate}" if encoding in _RAW_TYPES else MEDIA_TYPES[encoding]


def _encoder(encoding: str, container: str, rate: int, bit_rate: int | None) -> Encoder:
    if encoding in _RAW_TYPES:
        return encoder.wav(encoding, rate) if container == "wav" else encoder.raw(encoding, rate)
    return encoder.file(encoding, rate, bit_rate)
