"""The messages of Deepgram's ``/v1/listen``, a struct each.

Field names and which of them are required follow the types of deepgram-sdk 7 (``deepgram/listen/v1/types``). Extra keys
of ours: ``stable_words`` on an alternative, ``approximate`` and ``speaker_name`` on a word, ``warnings`` on Metadata;
and the messages SpeakerMerged and SpeakerNamed.
"""

import unicodedata
from typing import Final

import msgspec

from streaming.events import Transcript
from streaming.events import Word as SpokenWord


class ListenWord(msgspec.Struct, omit_defaults=True):
    """One word: ``word`` in lower case without punctuation, ``punctuated_word`` as it stands in the transcript."""

    word: str
    start: float
    end: float
    confidence: float
    punctuated_word: str | None = None
    approximate: bool = False
    """Whether the times are those of the segment, shared out over its words."""
    speaker: int | None = None
    """Who says it, where ``diarize`` asks for that and the word is final."""
    speaker_confidence: float | None = None
    speaker_name: str | None = None
    """Their name, where somebody who is known speaks."""


class Alternative(msgspec.Struct, omit_defaults=True):
    """The one reading of a stretch of audio."""

    transcript: str
    confidence: float
    words: list[ListenWord]
    stable_words: int
    """Leading words that are committed: they stay as long as this segment is open."""
    languages: list[str] | None = None


class Channel(msgspec.Struct):
    """What was heard in a channel, or in all of them mixed."""

    alternatives: list[Alternative]


class ModelInfo(msgspec.Struct):
    """The model that heard the audio."""

    name: str
    version: str
    arch: str


class ResultsMetadata(msgspec.Struct):
    """The request and the model to which a result belongs."""

    request_id: str
    model_info: ModelInfo
    model_uuid: str


class Results(msgspec.Struct, tag="Results", tag_field="type"):
    """The words of ``start … start + duration``. A result that is not final replaces the one before it of the same
    ``start``."""

    channel_index: tuple[int, int]
    """The channel and the number of channels; the first of one where all are mixed."""
    duration: float
    start: float
    is_final: bool
    speech_final: bool
    from_finalize: bool
    channel: Channel
    metadata: ResultsMetadata


class SpeechStarted(msgspec.Struct, tag="SpeechStarted", tag_field="type"):
    """Speech began at ``timestamp``."""

    channel: tuple[int, int]
    timestamp: float


class UtteranceEnd(msgspec.Struct, tag="UtteranceEnd", tag_field="type"):
    """No word was said for ``utterance_end_ms`` after the one that ended at ``last_word_end``."""

    channel: tuple[int, int]
    last_word_end: float


class SpeakerMerged(msgspec.Struct, tag="SpeakerMerged", tag_field="type"):
    """A message of ours, for who asks: what ``speaker`` said was said by ``into``, as it turns out. Finals that were
    sent stay."""

    channel: tuple[int, int]
    speaker: int
    into: int


class SpeakerNamed(msgspec.Struct, tag="SpeakerNamed", tag_field="type"):
    """A message of ours, for who asks: what ``speaker`` said so far was said by somebody called ``name``."""

    channel: tuple[int, int]
    speaker: int
    name: str


class Metadata(msgspec.Struct, tag="Metadata", tag_field="type"):
    """The stream's last message before a normal close. ``sha256`` is that of the audio bytes that arrived."""

    transaction_key: str
    request_id: str
    sha256: str
    created: str
    duration: float
    channels: int
    models: list[str]
    model_info: dict[str, ModelInfo]
    warnings: list[str]


class ConfigureFailure(msgspec.Struct, tag="ConfigureFailure", tag_field="type"):
    """The answer to ``Configure``: a stream's keyterms are fixed when it opens."""

    request_id: str
    code: str
    description: str


class KeepAlive(msgspec.Struct, tag="KeepAlive", tag_field="type"):
    """The client is still there, without audio."""


class Finalize(msgspec.Struct, tag="Finalize", tag_field="type"):
    """Close the open segment now."""


class CloseStream(msgspec.Struct, tag="CloseStream", tag_field="type"):
    """No more audio."""


class Configure(msgspec.Struct, tag="Configure", tag_field="type"):
    """Change the stream's options."""


Command = KeepAlive | Finalize | CloseStream | Configure

commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)


def results(event: Transcript, metadata: ResultsMetadata, channel: tuple[int, int], *, punctuate: bool) -> Results:
    """``event``, heard in ``channel``, in Deepgram's shape."""
    words = [word(one, punctuate) for one in event.words]
    alternative = Alternative(
        transcript=event.text if punctuate else " ".join(one.word for one in words),
        confidence=event.confidence,
        words=words,
        stable_words=event.stable_words,
        languages=[event.language] if event.language else None,
    )
    return Results(
        channel_index=channel,
        duration=round(event.end - event.start, 4),
        start=round(event.start, 4),
        is_final=event.is_final,
        speech_final=event.speech_final,
        from_finalize=event.from_finalize,
        channel=Channel([alternative]),
        metadata=metadata,
    )


def word(spoken: SpokenWord, punctuate: bool) -> ListenWord:
    """``spoken`` in Deepgram's shape."""
    return ListenWord(
        word=bare(spoken.text),
        start=spoken.start,
        end=spoken.end,
        confidence=spoken.confidence,
        punctuated_word=spoken.text if punctuate else None,
        approximate=spoken.approximate,
        speaker=spoken.speaker,
        speaker_confidence=spoken.speaker_confidence,
        speaker_name=spoken.speaker_name,
    )


def bare(text: str) -> str:
    """A word in lower case without the punctuation around it. What is nothing but punctuation stays as it is."""
    start, end = 0, len(text)
    while start < end and _is_punctuation(text[start]):
        start += 1
    while end > start and _is_punctuation(text[end - 1]):
        end -= 1
    return (text[start:end] or text).lower()


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")
