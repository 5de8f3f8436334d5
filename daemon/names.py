"""Which model or voice a caller means. The names cloud services use are aliases of what is loaded."""

from fnmatch import fnmatchcase
from typing import Final

from daemon.loading import Models
from daemon.refusal import Refused

HEARING_ALIASES: Final = (
    # Deepgram
    "nova", "nova-*", "enhanced", "enhanced-*", "base", "base-*", "general", "meeting", "phonecall", "voicemail",
    "finance", "conversationalai", "video", "medical", "drivethru", "automotive", "whisper", "whisper-*",
    # OpenAI
    "gpt-4o-transcribe", "gpt-4o-transcribe-*", "gpt-4o-mini-transcribe", "gpt-4o-mini-transcribe-*", "gpt-transcribe",
    "gpt-live-transcribe", "gpt-realtime-whisper",
    "default",
)  # fmt: skip
"""Patterns of names that mean the hearing model."""

SPEAKING_ALIASES: Final = (
    "aura", "aura-*",  # Deepgram
    "tts-1", "tts-1-*", "gpt-4o-mini-tts", "gpt-4o-mini-tts-*",  # OpenAI
    "default",
)  # fmt: skip
"""Patterns of names that mean the speaking model."""

VOICE_ALIASES: Final = frozenset({
    "default",
    "alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer", "verse",
})  # fmt: skip
"""OpenAI's voices: with a model that has none of that name, they mean its first."""


def check_model(asked: str, loaded: str, aliases: tuple[str, ...], *, status: int) -> None:
    """Accept the loaded model's name, an alias, or none at all.

    Raises:
        Refused: with ``status``, any other name.
    """
    if asked not in ("", loaded) and not _is_alias(asked, aliases):
        raise Refused(status, "model_not_found", f"model: {asked!r} is not loaded; {loaded!r} is", param="model")


def named(asked: str, models: Models) -> str:
    """The name of the loaded model that ``asked`` means.

    Raises:
        Refused: 404, neither.
    """
    speaking = models.speaking.name if models.speaking else None
    if asked == models.hearing.name or (asked != speaking and _is_alias(asked, HEARING_ALIASES)):
        return models.hearing.name
    if speaking is not None and (asked == speaking or _is_alias(asked, SPEAKING_ALIASES)):
        return speaking
    loaded = f"{models.hearing.name!r}" + (f" and {speaking!r} are" if speaking else " is")
    raise Refused(404, "model_not_found", f"model: {asked!r} is not loaded; {loaded}", param="model")


def _is_alias(asked: str, aliases: tuple[str, ...]) -> bool:
    return any(fnmatchcase(asked.lower(), alias) for alias in aliases)
