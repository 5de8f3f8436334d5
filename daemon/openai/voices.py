"""``/v1/audio/voices``: presets and cloned voices of the speaking model. GET and POST; GET and DELETE of ``/{id}``."""

from functools import partial
from typing import Any, BinaryIO, Final

from starlette.datastructures import FormData, UploadFile
from starlette.types import Receive, Scope, Send

from audio.recording import RecordingError, open_recording
from codec.clone import LONGEST_SECONDS, beginning, check_length
from codec.model import TtsModel
from codec.voices import CannotClone, VoiceInfo
from daemon import body
from daemon.answer import in_time, json
from daemon.hub import Hub
from daemon.parameters import SPEAKING_ALIASES, check_model
from daemon.refusal import Refused
from engines.sessions import OptionError

_MAX_BYTES: Final = 32 << 20
"""Of a reference: 30 s of 48 kHz stereo in 64 bits, and room for its form."""
_FILES: Final = ("audio_sample", "file", "reference")
"""Names under which the recording may come; the first is OpenAI's."""
_KNOWN: Final = frozenset({*_FILES, "name", "text", "model", "type", "consent"})


async def voices(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the request."""
    model = hub.speaking_model().model
    asked: str | None = scope.get("path_params", {}).get("id")
    match scope["method"], asked:
        case "GET", None:
            found = await hub.run(model.voices.listed)
            answer = json({"voices": [_shown(voice) for voice in found]})
        case "POST", None:
            answer = json(_shown(await _clone(hub, model, scope, receive)), 201)
        case "GET", str():
            answer = json(_shown(await hub.run(partial(_find, model, asked))))
        case "DELETE", str():
            await hub.run(partial(_delete, model, asked))
            answer = json({"id": asked.lower(), "object": "audio.voice.deleted", "deleted": True})
        case _:
            allowed = "GET", "POST" if asked is None else "DELETE"
            raise Refused(405, "method", f"{' or '.join(allowed)} {scope['path']}", allow=", ".join(allowed))
    async with in_time(hub.settings.send_timeout_seconds):
        await answer(scope, receive, send)


async def _clone(hub: Hub, model: TtsModel, scope: Scope, receive: Receive) -> VoiceInfo:
    settings = hub.settings
    most = min(_MAX_BYTES, settings.max_upload_bytes)
    form = await body.form(scope, receive, settings, most, f"a voice needs at most {LONGEST_SECONDS:g} s of audio")
    try:
        field, file, name, text = _checked(form, model)
        return await hub.run(partial(_cloned, model, field, file, name, text))
    finally:
        await form.close()


def _checked(form: FormData, model: TtsModel) -> tuple[str, BinaryIO, str, str | None]:
    """The recording's field, the recording, the name, and what is said in the recording."""
    for field in form:
        if field not in _KNOWN:
            raise body.wrong(field, f"{field}: no such field")
    if body.text(form, "type", "audio_sample") != "audio_sample":
        raise body.wrong("type", "type: voices are made from recordings (audio_sample)")
    check_model(body.text(form, "model"), model.name, SPEAKING_ALIASES, status=404)
    text = body.text(form, "text") or None
    try:
        model.voices.require_cloning(with_text=text is not None)
    except CannotClone as error:
        raise Refused(400, "cannot_clone", str(error), param="model") from None
    given = [field for field in _FILES if field in form]
    if len(given) != 1:
        raise body.wrong(_FILES[0], f"{_FILES[0]}: {'missing' if not given else 'given as ' + ' and '.join(given)}")
    file = form[given[0]]
    if not isinstance(file, UploadFile) or not file.size:
        raise body.wrong(given[0], f"{given[0]}: {'empty' if isinstance(file, UploadFile) else 'not a file'}")
    name = body.text(form, "name")
    if not name:
        raise body.wrong("name", "name: missing")
    return given[0], file.file, name, text


def _cloned(model: TtsModel, field: str, file: BinaryIO, name: str, text: str | None) -> VoiceInfo:
    """In a worker thread."""
    rate = model.sample_rate
    try:
        told = open_recording(file).seconds
        if told > LONGEST_SECONDS:
            check_length(told)
        return _find(model, model.clone(name, beginning(file, rate), rate, text).id)
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
        _find(model, asked)  # somebody else may have deleted it meanwhile
        code = "preset_voice" if voice.kind == "preset" else "invalid_voice"
        raise Refused(400, code, str(error), param=error.field) from None


def _shown(voice: VoiceInfo) -> dict[str, Any]:
    return {"id": voice.id, "name": voice.name, "kind": voice.kind}
