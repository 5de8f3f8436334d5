"""The shape that ``/v1/realtime`` had before it was released, which many clients still speak.

A beta session is flat: ``input_audio_format`` where the released one has ``audio.input.format``. Such an update is read
as what it means; taken for an update of unknown fields, it would leave the format as it was, and telephone audio would
be heard as noise. A session whose client speaks beta is also told its events by their old names.

Source: openai-python 1.x, ``openai/types/beta/realtime``.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from starlette.datastructures import Headers
from starlette.types import Scope

from daemon.openai.realtime.spec import Invalid

Document = dict[str, Any]

_FORMATS: Final[Mapping[str, Document]] = {
    "pcm16": {"type": "audio/pcm", "rate": 24_000},
    "g711_ulaw": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
}
"""The formats of audio by their names in beta, each as the released shape has it."""
_ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "input_audio_format": ("audio", "input", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
    "output_audio_format": ("audio", "output", "format"),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
}
"""The fields of beta, each with its place in the released shape."""
_EVENTS: Final = {
    "conversation.item.added": "conversation.item.created",
    "response.output_audio.delta": "response.audio.delta",
    "response.output_audio.done": "response.audio.done",
    "response.output_audio_transcript.delta": "response.audio_transcript.delta",
    "response.output_audio_transcript.done": "response.audio_transcript.done",
    "response.output_text.delta": "response.text.delta",
    "response.output_text.done": "response.text.done",
}
"""The events that beta calls something else."""
_CONTENT: Final = {"output_text": "text", "output_audio": "audio"}
"""The parts of a message that beta calls something else."""


def asked_for(scope: Scope) -> bool:
    """Whether a connection says that it speaks beta: by a header, or by a subprotocol, as browsers do."""
    header = Headers(scope=scope).get("openai-beta", "")
    return "realtime=v1" in header.replace(" ", "") or "openai-beta.realtime-v1" in scope.get("subprotocols", [])


def spoken(patch: Document) -> bool | None:
    """Whether an update has the beta shape; None where nothing in it tells."""
    if "type" in patch or "audio" in patch:
        return False
    return True if any(name in patch for name in _ELSEWHERE) else None


def released(patch: Mapping[str, Any], root: str = "session") -> Document:
    """An update, or a response's options, in the released shape. A field that already has that shape stays, and counts
    more.

    Raises:
        Invalid: a format of audio that there is not.
    """
    found: Document = {}
    for name, place in _ELSEWHERE.items():
        if name in patch:
            _put(found, place, _value(name, patch[name], root))
    for name, value in patch.items():
        if name == "audio" and isinstance(value, dict):
            found["audio"] = _laid_over(found.get("audio", {}), cast(Document, value))
        elif name not in _ELSEWHERE:
            found[name] = value
    for side in ("input", "output"):
        half = _inner(_inner(found, "audio"), side)
        if isinstance(half.get("format"), str):
            half["format"] = _format(half["format"], f"{root}.audio.{side}.format")
    return found


def told(event: Document) -> Document | None:
    """The event as a client of beta knows it; None where beta has no such event."""
    kind = event["type"]
    if kind == "conversation.item.done":
        return None
    event = {**event, "type": _EVENTS.get(kind, kind)}
    if "session" in event:
        # Some clients send the header of beta and speak the released shape, so a session is told in both shapes.
        if kind == "session.updated" and event["session"]["type"] == "transcription":
            event["type"] = "transcription_session.updated"
        event["session"] = {**event["session"], **_flat(event["session"])}
    if "item" in event:
        event["item"] = _item(event["item"])
    if "response" in event:
        event["response"] = _response(event["response"])
    return event


def _value(name: str, value: Any, root: str) -> Any:
    if name.endswith("_format"):
        return _format(value, f"{root}.{name}")
    if name == "modalities" and isinstance(value, list):
        given = cast(list[Any], value)
        return ["audio"] if "audio" in given else given
    if name == "turn_detection" and isinstance(value, dict) and cast(Document, value).get("type") == "none":
        return None
    return cast(Any, value)


def _format(value: Any, param: str) -> Any:
    if isinstance(value, str):
        if value not in _FORMATS:
            raise Invalid(param, f"{param}: {value[:80]!r} is none of {', '.join(_FORMATS)}")
        return dict(_FORMATS[value])
    if not isinstance(value, dict):
        raise Invalid(param, f"{param}: {str(value)[:80]!r} is no format of audio")
    return cast(Document, value)


def _put(document: Document, place: tuple[str, ...], value: Any) -> None:
    for name in place[:-1]:
        document = document.setdefault(name, {})
    document[place[-1]] = value


def _laid_over(under: Document, over: Document) -> Document:
    """``over``, with what only ``under`` has added to it. Neither is changed."""
    found = {**under, **over}
    for name in under.keys() & over.keys():
        if isinstance(under[name], dict) and isinstance(over[name], dict):
            found[name] = _laid_over(under[name], over[name])
    return {name: dict(cast(Document, one)) if isinstance(one, dict) else one for name, one in found.items()}


def _inner(document: Mapping[str, Any], name: str) -> Document:
    found = document.get(name)
    return cast(Document, found) if isinstance(found, dict) else {}


def _flat(session: Document) -> Document:
    """A session's object in the flat shape of beta."""
    audio, found = session["audio"], Document()
    for name, place in _ELSEWHERE.items():
        holder: Any = session
        for part in place[:-1]:
            holder = _inner(holder, part)
        if place[-1] in holder:
            found[name] = holder[place[-1]]
    for side in ("input", "output"):
        if side in audio:
            found[f"{side}_audio_format"] = _old_format(audio[side]["format"])
    if found.get("modalities") == ["audio"]:
        found["modalities"] = ["audio", "text"]
    return found


def _old_format(format: Any) -> Any:
    return next((name for name, new in _FORMATS.items() if new == format), format)


def _item(item: Document) -> Document:
    parts = item.get("content")
    if parts is None:
        return item
    return {**item, "content": [{**part, "type": _CONTENT.get(part["type"], part["type"])} for part in parts]}


def _response(response: Document) -> Document:
    found = {name: value for name, value in response.items() if name not in ("audio", "output_modalities")}
    output = _inner(_inner(response, "audio"), "output")
    spoken_aloud = "audio" in response["output_modalities"]
    return {
        **found,
        "output": [_item(item) for item in response["output"]],
        "modalities": ["audio", "text"] if spoken_aloud else ["text"],
        **({"voice": output.get("voice"), "output_audio_format": _old_format(output["format"])} if output else {}),
    }
