"""What callers ask for: query parameters, read strictly, and which model, voice or language they mean.

The names cloud services use are aliases of what is loaded.
"""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qsl

from daemon.loading import Models
from daemon.refusal import Refused

Given = Mapping[str, list[str]]

SEED_BITS: Final = 53
"""Of the seeds we draw: what every JSON reader keeps exactly."""

HEARING_ALIASES: Final = (
    # Deepgram
    "nova", "nova-*", "flux", "flux-*",
    "enhanced", "enhanced-*", "base", "base-*", "general", "meeting", "phonecall", "voicemail",
    "finance", "conversationalai", "video", "medical", "drivethru", "automotive", "whisper", "whisper-*",
    # OpenAI
    "gpt-4o-transcribe", "gpt-4o-transcribe-*", "gpt-4o-mini-transcribe", "gpt-4o-mini-transcribe-*", "gpt-transcribe",
    "gpt-live-transcribe", "gpt-realtime-whisper",
    "default",
)  # fmt: skip
"""Patterns of names that mean the hearing model."""

SPEAKING_ALIASES: Final = (
    "aura", "aura-*", "flux", "flux-*",  # Deepgram
    "tts-1", "tts-1-*", "gpt-4o-mini-tts", "gpt-4o-mini-tts-*",  # OpenAI
    "default",
)  # fmt: skip
"""Patterns of names that mean the speaking model."""

VOICE_ALIASES: Final = frozenset({
    "default",
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
})  # fmt: skip
"""OpenAI's voices: with a model that has none of that name, they mean its first."""

OTHER_HEARING: Final = (
    "*whisper*", "*/distil-*", "distil-*", "*parakeet*", "*canary*", "*moonshine*", "*qwen3-asr*", "*voxtral*",
)  # fmt: skip
OTHER_SPEAKING: Final = (
    "*kokoro*", "*piper*", "*orpheus*", "*xtts*", "*chatterbox*", "*qwen3-tts*", "gpt-audio*",
)  # fmt: skip
OTHER_VOICES: Final = ("[a-z][fm]_*", "[a-z][a-z]_[a-z][a-z]-*")
"""Patterns of the names that other local servers give to models and voices (Kokoro's ``af_heart``, Piper's
``en_us-lessac-medium``): a client set up for one of them is served by what is here, with a warning."""

_OFF: Final = frozenset({"", "false", "0", "none"})


def asked(
    query_string: bytes,
    model: str,
    aliases: tuple[str, ...],
    honoured: Collection[str],
    not_honoured: Collection[str] | None = None,
    many: Collection[str] = (),
) -> tuple[Given, dict[str, str], list[str]]:
    """Every name with all its values, and with the last; a warning for each that asks for what is not honoured.

    Args:
        model: name of the loaded one, which its ``aliases`` mean too.
        not_honoured: what else may be given; None: anything.
        many: of which there may be several.

    Raises:
        Refused: 400 naming a parameter that nobody knows or that was given twice, or for another model.
    """
    given: dict[str, list[str]] = {}
    for name, value in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True):
        given.setdefault(name, []).append(value)
    others = sorted(name for name in given if name not in honoured)
    unknown = [name for name in others if not_honoured is not None and name not in not_honoured]
    if unknown:
        raise wrong(unknown[0], f"{', '.join(unknown)}: no such parameter")
    for name, values in given.items():
        if len(values) > 1 and name in honoured and name not in many:
            raise wrong(name, f"{name}: given {len(values)} times")
    one = {name: values[-1] for name, values in given.items()}
    check_model(one.get("model", ""), model, aliases, status=400)
    return given, one, [f"{name}: not honoured" for name in others if one[name].lower() not in _OFF]


def wrong(name: str, message: str) -> Refused:
    """400 for the parameter ``name``."""
    return Refused(400, "invalid_query", message, param=name)


def flag(one: Mapping[str, str], name: str, default: bool) -> bool:
    """``true`` or ``false``."""
    text = one.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise wrong(name, f"{name}: {one[name]!r} is not true or false")
    return text == "true"


def whole(one: Mapping[str, str], name: str, default: int, digits: int = 9) -> int:
    """A whole number, not negative."""
    text = one.get(name, str(default))
    # int() would also take "1_6", " 16" and other scripts' digits.
    if not (text.isascii() and text.isdigit()):
        raise wrong(name, f"{name}: {text[:80]!r} is not a whole number")
    if len(text) > digits:
        raise wrong(name, f"{name}: a number of {len(text)} digits, the limit is {digits}")
    return int(text)


def number(one: Mapping[str, str], name: str, default: float) -> float:
    """A decimal number, not negative."""
    text = one.get(name, str(default))
    before, _, after = text.partition(".")
    if not ((before + after).isascii() and (before + after).isdigit() and len(text) < 20):
        raise wrong(name, f"{name}: {text!r} is not a number")
    return float(text)


def language(tag: str) -> str | None:
    """The language to force; with none, ``multi`` or ``auto`` the model tells."""
    return None if tag in ("", "multi", "auto") else tag


def check_model(asked: str, loaded: str, aliases: tuple[str, ...], *, status: int) -> list[str]:
    """Accept the loaded model's name, an alias, or none at all; a warning where another name is meant.

    Raises:
        Refused: with ``status``, any other name.
    """
    if asked in ("", loaded, "default"):
        return []
    if not matches(asked, aliases):
        raise Refused(status, "model_not_found", f"model: {asked[:80]!r} is not loaded; {loaded!r} is", param="model")
    return [f"model: {asked[:80]!a} is {loaded} here"]


def warning_header(warnings: Collection[str]) -> list[tuple[bytes, bytes]]:
    """The header of an answer that is not quite what was asked for; none without warnings."""
    text = "; ".join(warnings).encode("ascii", "backslashreplace")
    return [(b"hearsay-warning", text[:1000])] if warnings else []


def named(asked: str, models: Models) -> str:
    """The name of the loaded model that ``asked`` means.

    Raises:
        Refused: 404, neither.
    """
    speaking = models.speaking.name if models.speaking else None
    if asked == models.hearing.name or (asked != speaking and matches(asked, HEARING_ALIASES)):
        return models.hearing.name
    if speaking is not None and (asked == speaking or matches(asked, SPEAKING_ALIASES)):
        return speaking
    loaded = f"{models.hearing.name!r}" + (f" and {speaking!r} are" if speaking else " is")
    raise Refused(404, "model_not_found", f"model: {asked[:80]!r} is not loaded; {loaded}", param="model")


def matches(asked: str, aliases: tuple[str, ...]) -> bool:
    """Whether ``asked`` is one of ``aliases``."""
    return any(fnmatchcase(asked.lower(), alias) for alias in aliases)
