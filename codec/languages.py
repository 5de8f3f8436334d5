"""The language to speak, of those that a model has."""

from typing import Final

from engines.manifest import TtsManifest
from engines.sessions import OptionError

LANGUAGES: Final = {
    "chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de", "french": "fr",
    "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it",
}  # fmt: skip
"""The model family's own names of its languages."""


def language_of(manifest: TtsManifest, asked: str | None) -> str | None:
    """The language by ISO code: the one asked for, the model's only one, or None to let the model tell.

    Raises:
        OptionError: the model does not have it.
    """
    offered = manifest.languages
    if asked is None or asked.lower() == "auto":
        return offered[0] if len(offered) == 1 else None
    code = LANGUAGES.get(asked.lower(), asked.replace("_", "-").split("-")[0].lower())
    if code not in offered:
        raise OptionError("language", f"{manifest.name} speaks {', '.join(offered)}, not {asked[:80]!r}")
    return code
