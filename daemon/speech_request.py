"""A request to ``/v1/audio/speech``: OpenAI's JSON body, and a few fields of ours, checked."""

import re
import secrets
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.types import Receive, Scope

from codec.options import OptionError, SpeakOptions
from daemon import body
from daemon.config import Settings
from daemon.encoder import MEDIA_TYPES
from daemon.names import SPEAKING_ALIASES, check_model
from daemon.refusal import Refused
from daemon.speak_query import SEED_BITS

_MAX_BYTES: Final = 1 << 20
"""Of the body: room for the longest text that any setting allows, every character written as \\uXXXX."""
_RATE: Final = 24_000
"""Hz, of every format: what OpenAI's pcm has."""

_PLACE: Final = re.compile(r"at `\$\.(\w+)")
_FIELD: Final = re.compile(r"field `(\w+)`")


class VoiceId(msgspec.Struct, forbid_unknown_fields=True):
    """OpenAI's way to name a voice of one's own."""

    id: str


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    input: str
    model: str = ""
    voice: str | VoiceId | None = None
    instructions: str | None = None
    response_format: str | None = None
    speed: float | None = None
    stream_format: str | None = None
    # Ours.
    language: str | None = None
    seed: int | None = None
    normalise: bool | None = None


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A checked request for one text."""

    text: str
    options: SpeakOptions
    format: str
    """One of ``daemon.encoder.MEDIA_TYPES``."""
    sse: bool


_decoder: Final = msgspec.json.Decoder(_Body)


async def read(scope: Scope, receive: Receive, settings: Settings, model: str) -> SpeechRequest:
    """Read and check the body; ``model`` is the name of the loaded one, which itself checks voice and language.

    Raises:
        Refused: 400 naming the field, 404 another model, 408 standing still, 413 too large.
        ClientDisconnect: the client left.
    """
    data = await body.whole(scope, receive, settings, _MAX_BYTES, "a text of max_text_characters fits")
    try:
        asked = _decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        found = _PLACE.search(str(error)) or _FIELD.search(str(error))
        name = found[1] if found else None
        prefix = f"{name}: " if name else "the body must be a JSON object: "
        raise Refused(400, "invalid_body", f"{prefix}{error}", param=name) from None
    check_model(asked.model, model, SPEAKING_ALIASES, status=404)
    characters = len(asked.input)
    if not asked.input.strip():
        raise body.wrong("input", "input: empty")
    if characters > settings.max_text_characters:
        limit = f"the limit is {settings.max_text_characters} (max_text_characters)"
        raise body.wrong("input", f"input: {characters} characters, {limit}; GET /v1/speak takes text without an end")
    format = asked.response_format or "mp3"
    if format not in MEDIA_TYPES:
        raise body.wrong("response_format", f"response_format: {format!r} is none of {', '.join(MEDIA_TYPES)}")
    stream_format = asked.stream_format or "audio"
    if stream_format not in ("audio", "sse"):
        raise body.wrong("stream_format", f"stream_format: {stream_format!r} is none of audio, sse")
    try:
        options = SpeakOptions(
            voice=(asked.voice.id if isinstance(asked.voice, VoiceId) else asked.voice) or None,
            language=asked.language or None,
            instructions=asked.instructions or None,
            speed=1.0 if asked.speed is None else asked.speed,
            seed=secrets.randbits(SEED_BITS) if asked.seed is None else asked.seed,
            sample_rate=_RATE,
            normalise=asked.normalise is not False,
        )
    except OptionError as error:
        raise body.wrong(error.field, str(error)) from None
    return SpeechRequest(asked.input, options, format, stream_format == "sse")
