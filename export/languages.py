"""Names of languages, as the checkpoints' configuration writes them, to ISO 639-1 codes (639-3 where there is none)."""

from export.checkpoint import Checkpoint, CheckpointError

CODES = {
    "Arabic": "ar", "Cantonese": "yue", "Chinese": "zh", "Czech": "cs", "Danish": "da", "Dutch": "nl", "English": "en",
    "Filipino": "fil", "Finnish": "fi", "French": "fr", "German": "de", "Greek": "el", "Hindi": "hi", "Hungarian": "hu",
    "Indonesian": "id", "Italian": "it", "Japanese": "ja", "Korean": "ko", "Macedonian": "mk", "Malay": "ms",
    "Persian": "fa", "Polish": "pl", "Portuguese": "pt", "Romanian": "ro", "Russian": "ru", "Spanish": "es",
    "Swedish": "sv", "Thai": "th", "Turkish": "tr", "Vietnamese": "vi",
}  # fmt: skip
"""The 30 languages of Qwen3-ASR (transformers, processing_qwen3_asr.py: LANGUAGE_CODE_TO_NAME)."""


def languages(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Codes of ``support_languages``; the transformers layout drops that key: then all thirty.

    Raises:
        CheckpointError: a name that is not among the thirty.
    """
    names = checkpoint.config.get("support_languages")
    if not names:
        return tuple(sorted(CODES.values()))
    unknown = [name for name in names if name not in CODES]
    if unknown:
        raise CheckpointError(
            f"{checkpoint.directory}/config.json: support_languages: unknown {', '.join(map(str, unknown))}"
        )
    return tuple(CODES[name] for name in names)
