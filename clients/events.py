"""The events of ``/v1/listen``: one dataclass each, and the parser of their JSON.

Times are seconds from the first sample that this connection was sent. An interim (``is_final`` false) replaces the one
before it of the same ``start``; the texts of the finals, joined by a space, are the session's text.
"""

import json
from dataclasses import dataclass, replace
from typing import Any


class ListenError(Exception):
    """A session with a daemon went wrong."""


class ProtocolError(ListenError):
    """The daemon sent what this client cannot read."""


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word: its ``text`` as it stands in the transcript, its times in seconds, its confidence 0…1."""

    text: str
    start: float
    end: float
    confidence: float
    speaker: int | None = None
    """Who says it, from 0 on, where ``StreamOptions.speakers`` asks for that and the word is final."""
    speaker_name: str | None = None
    """Their name, where they are somebody whom the daemon knows."""


@dataclass(frozen=True, slots=True)
class Results:
    """The words of a stretch of audio, ``start`` … ``start + duration``."""

    start: float
    duration: float
    text: str
    words: tuple[Word, ...]
    stable_words: int
    """How many leading words are committed; all of them in a final."""
    is_final: bool
    speech_final: bool
    from_finalize: bool
    confidence: float
    language: str | None


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """Someone began to speak."""

    at: float


@dataclass(frozen=True, slots=True)
class UtteranceEnd:
    """No word was said for a while after the one that ended here."""

    last_word_end: float


@dataclass(frozen=True, slots=True)
class SpeakerMerged:
    """What ``speaker`` said was said by ``into``, as it turns out."""

    speaker: int
    into: int


@dataclass(frozen=True, slots=True)
class SpeakerNamed:
    """What ``speaker`` said so far was said by somebody called ``name``."""

    speaker: int
    name: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the daemon says about the session at its end. ``warnings`` lists the parameters that it did not honour."""

    request_id: str
    duration: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """The daemon's own words about what went wrong, just before it closes the connection."""

    message: str


Event = Results | SpeechStarted | UtteranceEnd | SpeakerMerged | SpeakerNamed | Metadata | Fault


def parse(message: str | bytes) -> Event | None:
    """Read one message of the daemon; None for a type that this version does not know.

    Raises:
        ProtocolError: not JSON, or a known type without its fields.
    """
    try:
        data: Any = json.loads(message)
        return _parse(data)
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ProtocolError(f"unreadable message from the daemon ({error!r}): {message[:200]!r}") from error


def shift(event: Event, seconds: float) -> Event:
    """The same event on a clock that began ``seconds`` before this connection's."""
    match event:
        case Results():
            words = tuple(replace(word, start=word.start + seconds, end=word.end + seconds) for word in event.words)
            return replace(event, start=event.start + seconds, words=words)
        case SpeechStarted():
            return SpeechStarted(event.at + seconds)
        case UtteranceEnd():
            return UtteranceEnd(event.last_word_end + seconds)
        case Metadata():
            return replace(event, duration=event.duration + seconds)
        case _:
            return event


def _parse(data: Any) -> Event | None:
    match data["type"]:
        case "Results":
            best = data["channel"]["alternatives"][0]
            final = bool(data["is_final"])
            words = tuple(
                Word(
                    str(word.get("punctuated_word") or word["word"]),
                    float(word["start"]),
                    float(word["end"]),
                    float(word["confidence"]),
                    None if word.get("speaker") is None else int(word["speaker"]),
                    None if word.get("speaker_name") is None else str(word["speaker_name"]),
                )
                for word in best["words"]
            )
            languages: list[str] = best.get("languages") or []
            return Results(
                start=float(data["start"]),
                duration=float(data["duration"]),
                text=str(best["transcript"]),
                words=words,
                stable_words=int(best.get("stable_words", len(words) if final else 0)),
                is_final=final,
                speech_final=bool(data["speech_final"]),
                from_finalize=bool(data.get("from_finalize", False)),
                confidence=float(best["confidence"]),
                language=str(languages[0]) if languages else None,
            )
        case "SpeechStarted":
            return SpeechStarted(float(data["timestamp"]))
        case "UtteranceEnd":
            return UtteranceEnd(float(data["last_word_end"]))
        case "SpeakerMerged":
            return SpeakerMerged(int(data["speaker"]), int(data["into"]))
        case "SpeakerNamed":
            return SpeakerNamed(int(data["speaker"]), str(data["name"]))
        case "Metadata":
            warnings = tuple(str(warning) for warning in data.get("warnings") or ())
            return Metadata(str(data["request_id"]), float(data["duration"]), warnings)
        case "Error":
            return Fault(str(data.get("description") or data.get("message") or data))
        case _:
            return None
