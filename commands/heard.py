"""What a whole recording amounts to: the JSON object that ``hearsay transcribe --json`` writes for a file."""

from collections.abc import Mapping
from typing import Any

from streaming.prompt import LANGUAGES


def heard(file: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """``file text language duration words segments`` from OpenAI's ``verbose_json``, as the daemon makes it.

    Times in seconds from the beginning; ``language`` ISO 639-1, None where nothing was said. A word has ``word start
    end confidence``, and ``approximate: true`` where its times are shares of its segment's; a segment, one for each
    final, ``start end text``.
    """
    words = [
        {name: word[name] for name in ("word", "start", "end", "confidence", "approximate") if name in word}
        for word in answer.get("words") or ()
    ]
    segments = [
        {"start": segment["start"], "end": segment["end"], "text": str(segment["text"]).strip()}
        for segment in answer.get("segments") or ()
    ]
    # OpenAI's shape spells the language out.
    name = str(answer.get("language") or "").lower()
    code = next((code for code, spelled in LANGUAGES.items() if spelled.lower() == name), name or None)
    return {
        "file": file,
        "text": answer["text"],
        "language": code,
        "duration": answer.get("duration", 0.0),
        "words": words,
        "segments": segments,
    }
