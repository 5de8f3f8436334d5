"""OpenAI's ``POST /v1/audio/speech``: a text in JSON to a file that goes out while it is made. And Kokoro-FastAPI's
``POST /dev/captioned_speech``: the same with the times of the words, in JSON."""

import secrets
from functools import partial
from typing import Any, Final, cast

import msgspec
from starlette.types import Receive, Scope, Send

from audio.encoder import MEDIA_TYPES, file
from codec.options import SpeakOptions
from codec.sounds.lexicon import Lexicon
from daemon import body, paths
from daemon.config import Settings
from daemon.fields import Fields
from daemon.hub import Hub
from daemon.names import check_model, language
from daemon.parameters import SEED_BITS
from daemon.refusal import Refused
from daemon.spoken_file import MAX_BYTES, CaptionLines, Captions, Events, FileRequest, check_text, speak_file
from engines.sessions import OptionError

_RATE: Final = 24_000
"""Hertz, of every format: OpenAI's pcm has this rate."""


async def speech(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request, speak, and send what is made."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a JSON object with input", allow="POST")
    endpoint = paths.endpoint(scope["path"])
    captioned = endpoint is paths.CAPTIONED
    request = await _read(scope, receive, hub.settings, hub.speaking_model().name, captioned=captioned)
    await speak_file(hub, endpoint.path, request, receive, send)


class VoiceId(msgspec.Struct, forbid_unknown_fields=True):
    """The way in which OpenAI names a voice that a customer made."""

    id: str


class _Body(msgspec.Struct):
    input: str
    model: str | None = None
    voice: str | VoiceId | None = None
    instructions: str | None = None
    response_format: str | None = None
    speed: float | None = None
    stream_format: str | None = None
    # These fields are ours.
    language: str | None = None
    seed: int | None = None
    normalise: bool | None = None
    sample_rate: int | None = None
    pauses: float | None = None
    lexicon: dict[str, Any] | None = None


FIELDS: Final = Fields(
    frozenset(_Body.__struct_fields__),
    {
        "text": "input", "lang": "language", "lang_code": "language", "language_code": "language",
        "language_id": "language", "voice_id": "voice", "speaker": "voice", "speaker_id": "voice",
        "speaker_name": "voice", "model_id": "model", "model_name": "model", "instruct": "instructions",
        "instruction": "instructions", "format": "response_format", "output_format": "response_format",
        "audio_format": "response_format", "normalize": "normalise", "normalization_options": "normalise",
        "apply_text_normalization": "normalise", "text_normalization": "normalise", "samplerate": "sample_rate",
        "sampling_rate": "sample_rate", "speed_factor": "speed",
    },
    # These change nothing: the answer always streams.
    idle=frozenset({"stream", "user", "backend", "return_timestamps"}),
    code="invalid_body",
)  # fmt: skip
"""The fields of the door, and those that Kokoro-FastAPI, speaches, LocalAI, ElevenLabs and others send besides."""

_SAME_FORMAT: Final = {
    "ogg": "opus", "oga": "opus", "ogg_opus": "opus", "ogg-opus": "opus", "wave": "wav", "mpeg": "mp3", "mp2": "mp3",
    "adts": "aac", "raw": "pcm", "pcm16": "pcm", "pcm_s16le": "pcm", "s16le": "pcm", "linear16": "pcm",
}  # fmt: skip
"""Other names of formats, each with the name that it has here."""
_ANY_RATE: Final = ("wav", "pcm", "flac")

_decoder: Final = msgspec.json.Decoder(dict[str, Any])


async def _read(scope: Scope, receive: Receive, settings: Settings, model: str, *, captioned: bool) -> FileRequest:
    """Read and check the body; ``model`` is the name of the loaded one, which itself checks voice and language.

    Raises:
        Refused: 400 naming the field, 404 another model, 408 standing still, 413 too large.
        ClientDisconnect: the client left.
    """
    data = await body.whole(scope, receive, settings, MAX_BYTES, "a text of max_text_characters fits")
    sent = body.decoded(data, _decoder)
    found = FIELDS.understood(sent.items(), strict=settings.strict)
    given = {name: values[-1] for name, values in found.values.items()}
    if "normalise" in given:
        given["normalise"] = _normalises(given["normalise"])
    asked = body.converted(given, _Body)
    warnings = found.warnings
    warnings += check_model(asked.model or "", model, "speaks", strict=settings.strict, status=404)
    check_text("input", asked.input, settings)
    wanted = (asked.response_format or "mp3").lower()
    format = _SAME_FORMAT.get(wanted, wanted)
    if format not in MEDIA_TYPES:
        raise body.wrong("response_format", f"response_format: {wanted[:80]!r} is none of {', '.join(MEDIA_TYPES)}")
    stream_format = asked.stream_format or "audio"
    frame = None if stream_format == "audio" else Events
    if captioned:
        streams = sent.get("stream")
        if not isinstance(streams, bool | None):
            raise body.wrong("stream", "stream: true (JSON lines) or false (one object)")
        frame = Captions if streams is False else CaptionLines
    elif stream_format not in ("audio", "sse"):
        raise body.wrong("stream_format", f"stream_format: {stream_format[:80]!r} is none of audio, sse")
    rate = asked.sample_rate or _RATE
    if rate != _RATE and format not in _ANY_RATE:
        told = f"sample_rate: {format} comes at {_RATE} Hz here, {', '.join(_ANY_RATE)} at any other"
        raise body.wrong("sample_rate", told)
    try:
        options = SpeakOptions(
            voice=(asked.voice.id if isinstance(asked.voice, VoiceId) else asked.voice) or None,
            language=language(asked.language),
            instructions=asked.instructions or None,
            speed=1.0 if asked.speed is None else asked.speed,
            seed=secrets.randbits(SEED_BITS) if asked.seed in (None, -1) else asked.seed,
            sample_rate=rate,
            normalise=asked.normalise is not False,
            pauses=asked.pauses,
            word_times=captioned,
            lexicon=Lexicon.of(asked.lexicon) if asked.lexicon else None,
        )
    except OptionError as error:
        raise body.wrong(error.field, str(error)) from None
    return FileRequest(
        asked.input,
        "input",
        options,
        partial(file, format, rate),
        MEDIA_TYPES[format],
        frame=frame,
        warnings=tuple(warnings),
    )


def _normalises(asked: Any) -> Any:
    """Whether a text is normalised: Kokoro says so in an object, ElevenLabs with the words auto, on and off."""
    if isinstance(asked, dict):
        return cast(dict[str, Any], asked).get("normalize", True)
    if isinstance(asked, str) and asked.lower() in ("auto", "on", "off"):
        return asked.lower() != "off"
    return asked
