"""``/v1/audio/voices``: presets and cloned voices of the speaking model. GET and POST; GET and DELETE of ``/{id}``."""

from functools import partial
from typing import Any, BinaryIO, Final

from starlette.types import Receive, Scope, Send

from audio.recording import RecordingError
from codec.clone import LONGEST_SECONDS, beginning
from codec.model import TtsModel
from codec.voices import CannotClone, VoiceInfo
from daemon import body
from daemon.answer import in_time, json
from daemon.fields import Fields
from daemon.hub import Hub
from daemon.names import check_model, taken_voice
from daemon.parameters import warning_header
from daemon.refusal import Refused
from engines.sessions import OptionError

_MAX_BYTES: Final = 32 << 20
"""Bytes of a request: a reference of 30 s in 48 kHz stereo of 64 bits, and room for its form."""
_FILES: Final = ("audio_sample", "file", "reference")
"""The fields in which the recording may come. The first is OpenAI's."""
_FIELDS: Final = Fields(
    frozenset({*_FILES, "name", "text", "model", "type"}),
    {"audio": "file", "ref_audio": "reference", "ref_text": "text", "transcript": "text", "model_id": "model"},
    idle=frozenset({"consent"}),
)


async def voices(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the request."""
    model = hub.speaking_model().model
    asked: str | None = scope.get("path_params", {}).get("id")
    match scope["method"], asked:
        case "GET", None:
            found = await hub.run(model.voices.listed)
            answer = json({"voices": [_shown(voice) for voice in found]})
        case "POST", None:
            voice, warnings = await _clone(hub, model, scope, receive)
            answer = json(_shown(voice), 201)
            answer.raw_headers += warning_header(warnings)
        case "POST", "combine":  # Kokoro-FastAPI mixes the tensors of its voices there.
            told = "voices are not mixed here: name one voice (GET /v1/audio/voices), or clone one from a recording"
            raise Refused(501, "not_implemented", told)
        case "GET", str():
            answer = json(_shown(await hub.run(partial(_find, model, asked))))
        case "DELETE", str():
            await hub.run(partial(_delete, model, asked))
            answer = json({"id": asked.lower(), "object": "audio.voice.deleted", "deleted": True})
        case _:
            allowed = "GET", "POST" if asked is None else "DELETE"
            raise Refused(405, "method", f"{' or '.join(allowed)} {scope['path']}", allow=", ".join(allowed))
    async with in_time(hub):
        await answer(scope, receive, send)


async def _clone(hub: Hub, model: TtsModel, scope: Scope, receive: Receive) -> tuple[VoiceInfo, list[str]]:
    """Store the voice that a form asks for; returns it, and what of the form was ignored."""
    settings = hub.settings
    most = min(_MAX_BYTES, settings.max_upload_bytes)
    limit = f"a voice needs at most {LONGEST_SECONDS:g} s of audio"
    form = await body.form(scope, receive, settings, most, limit, _FILES)
    try:
        asked = body.FormFields(_FIELDS.understood(form.multi_items(), strict=settings.strict))
        field, file, name, text = _checked(asked, model, strict=settings.strict)
        return await hub.run(partial(_cloned, model, field, file, name, text)), asked.found.warnings
    finally:
        await form.close()


def _checked(asked: body.FormFields, model: TtsModel, *, strict: bool) -> tuple[str, BinaryIO, str, str | None]:
    """The recording's field, the recording, the name, and what is said in the recording."""
    if asked.text("type", "audio_sample") != "audio_sample":
        raise body.wrong("type", "type: voices are made from recordings (audio_sample)")
    check_model(asked.text("model"), model.name, "speaks", strict=strict, status=404)
    text = asked.text("text") or None
    try:
        model.voices.require_cloning(with_text=text is not None)
    except CannotClone as error:
        raise Refused(400, "cannot_clone", str(error), param="model") from None
    given = [field for field in _FILES if field in asked.found.values]
    if len(given) > 1:
        raise body.wrong(_FILES[0], f"{_FILES[0]}: given as {' and '.join(given)}")
    file = asked.file(given[0] if given else _FILES[0])
    name = asked.text("name")
    if not name:
        raise body.wrong("name", "name: missing")
    if (owner := taken_voice(name)) is not None and name.lower() not in model.voices.presets:
        raise body.wrong("name", f"name: {name[:80]!r} is {owner}; choose another")
    return given[0], file.file, name, text


def _cloned(model: TtsModel, field: str, file: BinaryIO, name: str, text: str | None) -> VoiceInfo:
    """Make and store the voice; runs in a worker thread."""
    rate = model.sample_rate
    try:
        heard = beginning(file, rate)
        with body.storing("the voice"):
            return _find(model, model.clone(name, heard, rate, text).id)
    except RecordingError as error:
        raise Refused(400, "invalid_file", f"{field}: {error}", param=field) from None
    except OptionError as error:
        wrong = field if error.field == "reference" else error.field
        raise Refused(400, "invalid_voice", f"{wrong}: {error.reason}", param=wrong) from None


def _find(model: TtsModel, asked: str) -> VoiceInfo:
    for voice in model.voices.listed():
        if voice.id == asked.lower():
            return voice
    raise Refused(404, "voice_not_found", f"voice: {model.name} has no {asked[:80]!r}", param="voice")


def _delete(model: TtsModel, asked: str) -> None:
    voice = _find(model, asked)
    try:
        model.voices.delete(voice.id)
    except OptionError as error:
        _find(model, asked)  # Another client may have deleted the voice meanwhile.
        code = "preset_voice" if voice.kind == "preset" else "invalid_voice"
        raise Refused(400, code, str(error), param=error.field) from None


def _shown(voice: VoiceInfo) -> dict[str, Any]:
    return {"id": voice.id, "name": voice.name, "kind": voice.kind}
