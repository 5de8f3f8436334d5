"""What a whole recording amounts to: the JSON object that ``hearsay transcribe --json`` writes for a file."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from streaming.events import Event, Transcript
from streaming.prompt import LANGUAGES


@dataclass(slots=True)
class Heard:
    """One file's result. Times in seconds from its beginning; ``language`` ISO 639-1, None where nothing was said."""

    file: str
    text: str = ""
    language: str | None = None
    duration: float = 0.0
    words: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """``word start end confidence``, and ``approximate: true`` where the times are shares of their segment's."""
    segments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """``start end text``, one for each final."""

    def take(self, events: Iterable[Event]) -> None:
        """Add the finals among ``events``."""
        for event in events:
            if not isinstance(event, Transcript) or not event.is_final or not event.text:
                continue
            self.text = f"{self.text} {event.text}" if self.text else event.text
            self.language = self.language or event.language
            self.segments.append({"start": event.start, "end": event.end, "text": event.text})
            for word in event.words:
                entry: dict[str, Any] = {
                    "word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence
                }  # fmt: skip
                self.words.append({**entry, "approximate": True} if word.approximate else entry)

    def object(self) -> dict[str, Any]:
        """The JSON object."""
        return asdict(self)


def from_answer(file: str, answer: dict[str, Any]) -> Heard:
    """The same from a daemon's ``verbose_json``."""
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
    return Heard(file, answer["text"], code, answer.get("duration", 0.0), words, segments)
