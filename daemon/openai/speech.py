"""OpenAI's ``POST /v1/audio/speech``: a text in JSON to a file that goes out while it is made."""

import secrets
from functools import partial
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from audio.encoder import MEDIA_TYPES, file
from codec.options import SpeakOptions
from daemon import body
from daemon.config import Settings
from daemon.hub import Hub
from daemon.parameters import OTHER_SPEAKING, SEED_BITS, SPEAKING_ALIASES, check_model
from daemon.paths import SPEECH
from daemon.refusal import Refused
from daemon.spoken_file import MAX_BYTES, FileRequest, check_text, speak_file
from engines.sessions import OptionError

_RATE: Final = 24_000
"""Hz, of every format: what OpenAI's pcm has."""


async def speech(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request, speak, send what is made."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a JSON object with input", allow="POST")
    request = await _read(scope, receive, hub.settings, hub.speaking_model().name)
    await speak_file(hub, SPEECH.path, request, receive, send)


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


_decoder: Final = msgspec.json.Decoder(_Body)


async def _read(scope: Scope, receive: Receive, settings: Settings, model: str) -> FileRequest:
    """Read and check the body; ``model`` is the name of the loaded one, which itself checks voice and language.

    Raises:
        Refused: 400 naming the field, 404 another model, 408 standing still, 413 too large.
        ClientDisconnect: the client left.
    """
    data = await body.whole(scope, receive, settings, MAX_BYTES, "a text of max_text_characters fits")
    asked = body.decoded(data, _decoder)
    aliases = SPEAKING_ALIASES if settings.strict else SPEAKING_ALIASES + OTHER_SPEAKING
    warnings = check_model(asked.model, model, aliases, status=404)
    check_text("input", asked.input, settings)
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
    return FileRequest(
        asked.input,
        "input",
        options,
        partial(file, format, _RATE),
        MEDIA_TYPES[format],
        sse=stream_format == "sse",
        warnings=tuple(warnings),
    )
