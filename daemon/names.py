"""Which model a caller means. One hearing model is loaded; the names cloud services use are aliases of it."""

from fnmatch import fnmatchcase
from typing import Final

from daemon.refusal import Refused

ALIASES: Final = (
    # Deepgram
    "nova", "nova-*", "enhanced", "enhanced-*", "base", "base-*", "general", "meeting", "phonecall", "voicemail",
    "finance", "conversationalai", "video", "medical", "drivethru", "automotive", "whisper", "whisper-*",
    # OpenAI
    "gpt-4o-transcribe", "gpt-4o-transcribe-*", "gpt-4o-mini-transcribe", "gpt-4o-mini-transcribe-*", "gpt-transcribe",
    "gpt-live-transcribe", "gpt-realtime-whisper",
    "default",
)  # fmt: skip
"""Patterns of names that mean the loaded model."""


def check_model(asked: str, loaded: str, *, status: int) -> None:
    """Accept the loaded model's name, an alias, or none at all.

    Raises:
        Refused: with ``status``, any other name.
    """
    if asked in ("", loaded) or any(fnmatchcase(asked.lower(), alias) for alias in ALIASES):
        return
    raise Refused(status, "model_not_found", f"model: {asked!r} is not loaded; {loaded!r} is", param="model")
