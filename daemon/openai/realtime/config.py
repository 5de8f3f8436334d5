"""What a session is set to: its object as the client is told, and as the daemon reads it.

An update is merged into the object: what is absent stays, null clears, an object of another ``type`` replaces. What is
accepted and changes nothing, or was brought within its bounds, is told in ``warnings``, a key of ours. Fields that
nobody here knows, as newer clients send them, are named there once and not kept.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

import msgspec

from audio.pcm import MAX_RATE, MIN_RATE
from daemon.fields import unsafe
from daemon.messages import misfit
from daemon.openai.realtime import beta
from daemon.openai.realtime.items import new_id
from daemon.openai.realtime.spec import OBJECTS, PADDING_MS, SILENCE_MS, Invalid, Spec
from streaming.options import THRESHOLDS

Document = dict[str, Any]

STREAMING_MODELS: Final = ("gpt-live-transcribe", "gpt-realtime-whisper")
"""Models whose clients commit every turn themselves, unless they ask for turn detection."""

_SERVER_VAD: Final = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": PADDING_MS,
    "silence_duration_ms": SILENCE_MS,
}
_SIDES: Final = frozenset({"audio", "input", "output"})
_CONTAINERS: Final = _SIDES | {"format"}
"""Objects of a session that null does not clear."""
_OF_SOUND: Final = ("format", "sample_rate", "samplerate", "encoding", "codec", "channels", "bit_depth")
"""Words in the names of fields that say in which form sound comes."""
_OURS: Final = ("id", "object", "expires_at", "warnings")
"""Fields that a client may send back as it was told them, but cannot set."""
_MOST_NAMED: Final = 16
"""Unknown fields that ``warnings`` names."""
_MOST_BYTES: Final = 1 << 19
"""Bytes of the object as JSON. Updates add to its free fields, and each is answered with all of it."""
_MOST_INSTRUCTIONS: Final = 1 << 17
"""Characters of instructions: more than small models read."""
_MOST_TOOLS: Final = 128
"""Tools of a session, as at OpenAI."""
_MOST_METADATA, _MOST_METADATA_CHARACTERS = 16, 512
"""The number of pairs, and the characters of a key or value, as at OpenAI: each response is told with them, twice."""


@dataclass(frozen=True, slots=True)
class Config:
    """A session's object, as the client is told and as the daemon reads it. It never changes; an update makes
    another."""

    document: Document
    spec: Spec
    chosen_turns: bool = False
    """Whether the client has said anything of turn detection."""

    @classmethod
    def initial(cls, kind: Literal["realtime", "transcription"], model: str = "", *, seconds: float) -> "Config":
        """The object of a new session that lasts at most ``seconds``. ``model`` is the name from the URL."""
        told: Document = {"format": {"type": "audio/pcm", "rate": 24_000}}
        heard: Document = {
            **told,
            "transcription": None,
            "noise_reduction": None,
            "turn_detection": _whole_turns({"type": "server_vad"}, kind),
        }
        document: Document = {
            "type": kind,
            "object": "realtime.session" if kind == "realtime" else "realtime.transcription_session",
            "id": new_id("sess"),
            "expires_at": int(time.time() + seconds),
            "include": None,
            "audio": {"input": heard},
        }
        if kind == "transcription":
            heard["transcription"] = {"model": model or None, "language": None, "prompt": None}
        else:
            document["audio"]["output"] = {**told, "voice": "default", "speed": 1.0}
            document |= {
                "model": model or None,
                "instructions": "",
                "output_modalities": ["audio"],
                "tools": [],
                "tool_choice": "auto",
                "max_output_tokens": "inf",
                "prompt": None,
                "tracing": None,
                "truncation": "auto",
            }
        return cls(document, _read(document, "session"))._with_turns_of_the_model()

    def again(self, *, seconds: float) -> "Config":
        """The same object for another session."""
        fresh = {"id": new_id("sess"), "expires_at": int(time.time() + seconds)}
        return replace(self, document={**self.document, **fresh})

    def updated(self, patch: Document, *, seconds: float, fresh: bool = False, strict: bool = False) -> "Config":
        """The object with ``patch`` merged in, which may have the beta shape.

        Args:
            seconds: as for :meth:`initial`.
            strict: refuse a field that nobody here knows.
            fresh: nothing was heard or said yet, so the session may become one of another type.

        Raises:
            Invalid: it cannot be honoured; nothing is changed.
        """
        patch = beta.released(patch)
        base, kind = self, patch.get("type", self.spec.type)
        if kind not in ("realtime", "transcription"):
            raise Invalid("session.type", f"session.type: {kind!r} is neither 'realtime' nor 'transcription'")
        if kind != self.spec.type:
            if not fresh:
                raise Invalid("session.type", f"session.type: this is a {self.spec.type} session, and it has begun")
            base = Config.initial(kind, self.spec.model or "", seconds=seconds)
            base.document["id"] = self.document["id"]
        unknown: list[str] = []
        document = merged(base.document, _known({k: v for k, v in patch.items() if k not in _OURS}, Spec, "", unknown))
        document.pop("warnings", None)
        heard = document["audio"]["input"]
        if kind == "transcription" and heard.get("transcription") is None:
            heard["transcription"] = {}
        if strict and unknown:
            name = unknown[0].partition(":")[0]
            raise Invalid(f"session.{name}", f"session.{name}: no such field here (strict)")
        turns = heard.get("turn_detection")
        if isinstance(turns, dict):
            heard["turn_detection"] = _whole_turns(cast(Document, turns), kind)
        spec = _read(document, "session")
        _check(spec)
        if (size := len(msgspec.json.encode(document))) > _MOST_BYTES:
            raise Invalid("session", f"session: {size} bytes of JSON, the limit is {_MOST_BYTES}", "session_limit")
        if warnings := _warnings(spec) + unknown[:_MOST_NAMED]:
            document["warnings"] = warnings
        chosen = self.chosen_turns or "turn_detection" in _object(_object(patch, "audio"), "input")
        return Config(document, spec, chosen)._with_turns_of_the_model()

    def for_response(self, patch: Mapping[str, Any]) -> Spec:
        """What one response is made by: the session's object with ``patch`` in it.

        Raises:
            Invalid: ``patch`` cannot be honoured.
        """
        patch = beta.released(patch, "response")
        known = {"instructions", "output_modalities", "tools", "tool_choice", "max_output_tokens", "temperature",
                 "metadata", "parallel_tool_calls"}  # fmt: skip
        wanted: Document = {name: value for name, value in patch.items() if name in known}
        if output := _object(_object(patch, "audio"), "output"):
            wanted["audio"] = {"output": output}
        if not wanted:
            return self.spec
        spec = _read(merged(self.document, wanted), "response")
        _check(spec, "response")
        return spec

    def _with_turns_of_the_model(self) -> "Config":
        wanted = self.spec.audio.input.transcription
        if self.chosen_turns or self.spec.turns is None or wanted is None or wanted.model not in STREAMING_MODELS:
            return self
        document = merged(self.document, {"audio": {"input": {"turn_detection": None}}})
        return Config(document, _read(document, "session"))


def _known(patch: Document, kind: type[msgspec.Struct], path: str, unknown: list[str]) -> Document:
    """The fields of ``patch`` that ``kind`` knows. ``unknown`` gets a warning for each of the others."""
    found: Document = {}
    for name, value in patch.items():
        if name not in kind.__struct_fields__:
            _check_ignorable(name, path)
            unknown.append(f"{path}{name[:64]}: not known here, not honoured")
        elif isinstance(value, dict) and name in OBJECTS:
            found[name] = _known(cast(Document, value), OBJECTS[name], f"{path}{name}.", unknown)
        else:
            found[name] = value
    return found


def _check_ignorable(name: str, path: str) -> None:
    """Check a field that nobody here knows.

    Raises:
        Invalid: a session without this field would not be what was asked for, and its client could not tell.
    """
    why = unsafe(name)
    if why is None and any(part in name.lower() for part in _OF_SOUND):
        why = "not known here, and sound in another form is misheard; audio.input.format tells its own"
    if why is not None:
        param = f"session.{path}{name[:64]}"
        raise Invalid(param, f"{param}: {why}")


def _whole_turns(turns: Document, kind: str) -> Document:
    """Turn detection with every field that clients look for: clients do themselves what they do not see the session
    do."""
    turns = (_SERVER_VAD if turns.get("type") == "server_vad" else {"eagerness": "auto"}) | turns
    return turns if kind == "transcription" else {"create_response": True, "interrupt_response": True, **turns}


def merged(old: Document, patch: Mapping[str, Any], path: str = "session") -> Document:
    """``old`` with ``patch`` in it; neither is changed.

    Raises:
        Invalid: what must stay an object would not.
    """
    found = dict(old)
    for name, new in patch.items():
        if name in _CONTAINERS and not isinstance(new, dict):
            if new is None:
                continue
            raise Invalid(f"{path}.{name}", f"{path}.{name}: {str(new)[:80]!r} is no object")
        if isinstance(new, dict):
            given, known = cast(Document, new), _object(old, name)
            same = name in _SIDES or given.get("type", known.get("type")) == known.get("type")
            found[name] = merged(known if same else {}, given, f"{path}.{name}")
        else:
            found[name] = new
    return found


def _object(document: Mapping[str, Any], name: str) -> Document:
    found = document.get(name)
    return cast(Document, found) if isinstance(found, dict) else {}


def _read(document: Document, root: str) -> Spec:
    try:
        return msgspec.convert(document, Spec)
    except (msgspec.ValidationError, RecursionError) as error:
        place = misfit(document, Spec)
        param = f"{root}.{place}" if place else root
        raise Invalid(param, f"{param}: {error}") from None


def _check(spec: Spec, root: str = "session") -> None:
    sides = [("input", spec.audio.input.format)]
    if spec.audio.output is not None:
        sides.append(("output", spec.audio.output.format))
        spec.speak_options()
    for side, format in sides:
        if format.type != "audio/pcm" and format.rate not in (None, format.sample_rate):
            told = f"{format.type} comes at {format.sample_rate} Hz, not {format.rate}"
            raise Invalid(f"{root}.audio.{side}.format.rate", f"rate: {told}")
        if not MIN_RATE <= format.sample_rate <= MAX_RATE:
            limit = f"{format.sample_rate} Hz lies outside {MIN_RATE}…{MAX_RATE} Hz"
            raise Invalid(f"{root}.audio.{side}.format.rate", f"rate: {limit}")
    if len(spec.instructions or "") > _MOST_INSTRUCTIONS:
        limit = f"the limit is {_MOST_INSTRUCTIONS}"
        raise Invalid(f"{root}.instructions", f"instructions: {len(spec.instructions or '')} characters, {limit}")
    metadata = spec.metadata or {}
    longest = max(map(len, (*metadata, *metadata.values())), default=0)
    if len(metadata) > _MOST_METADATA or longest > _MOST_METADATA_CHARACTERS:
        limit = f"the limit is {_MOST_METADATA}, of {_MOST_METADATA_CHARACTERS} characters"
        raise Invalid(f"{root}.metadata", f"metadata: {len(metadata)} pairs of at most {longest} characters, {limit}")
    if len(spec.tools or []) > _MOST_TOOLS:
        raise Invalid(f"{root}.tools", f"tools: {len(spec.tools or [])}, the limit is {_MOST_TOOLS}")
    spec.listen_options()


def _warnings(spec: Spec) -> list[str]:
    found: list[str] = []
    turns, wanted = spec.turns, spec.audio.input.transcription
    if turns is not None:
        if turns.prefix_padding_ms not in (None, spec.padding_ms):
            found.append(f"prefix_padding_ms: taken as {spec.padding_ms}")
        if turns.type == "semantic_vad" and turns.silence_duration_ms is not None:
            found.append("silence_duration_ms: not honoured with semantic_vad")
        elif turns.silence_duration_ms not in (None, spec.silence_ms):
            found.append(f"silence_duration_ms: taken as {spec.silence_ms}")
        low, high = THRESHOLDS
        if turns.threshold is not None and not low <= turns.threshold <= high:
            found.append(f"threshold: taken as the nearest of {low}…{high}")
        if turns.idle_timeout_ms:
            found.append("idle_timeout_ms: not honoured")
    if spec.audio.input.noise_reduction:
        found.append("noise_reduction: not honoured")
    if wanted is not None and wanted.delay:
        found.append("delay: not honoured")
    if spec.include:
        found.append("include: not honoured")
    if spec.tracing:
        found.append("tracing: not honoured")
    if spec.truncation not in (None, "auto"):
        found.append("truncation: not honoured, the oldest items leave")
    if spec.prompt:
        found.append("prompt: templates are not known here, not honoured")
    return found
