"""Names of languages, as the checkpoints' configuration writes them, to ISO 639-1 codes (639-3 where there is none)."""

from export.checkpoint import Checkpoint, CheckpointError
from streaming.prompt import QWEN

CODES = {name: code for code, name in QWEN.items()}


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
