"""What the daemon says on ``/v1/realtime``, one struct an event.

Names and fields follow the types of OpenAI's SDK 3 (``openai/types/realtime``). Extra keys of ours: ``words`` on
``…transcription.completed`` and ``warnings`` on a session.
"""

import base64
from typing import Any

import msgspec

from daemon.openai.realtime.items import Content, Item, new_id


def encoded(sound: bytes) -> str:
    """Sound in the form in which events hold it: base64."""
    return base64.b64encode(sound).decode()


def _event_id() -> str:
    return new_id("event")


class Event(msgspec.Struct, tag_field="type", kw_only=True):
    """An event of the daemon."""

    event_id: str = msgspec.field(default_factory=_event_id)


# --------------------------------------------------------------------------------------------------------- session


class SessionCreated(Event, tag="session.created"):
    """The first event: the session as it is."""

    session: dict[str, Any]


class SessionUpdated(Event, tag="session.updated"):
    """The session after an update."""

    session: dict[str, Any]


class Fault(msgspec.Struct):
    """Something went wrong, in words and in a word. ``event_id`` is that of the client's event, where one is to
    blame."""

    type: str
    code: str | None
    message: str
    param: str | None = None
    event_id: str | None = None


class Error(Event, tag="error"):
    """Something went wrong. The session goes on unless a close follows."""

    error: Fault


# ----------------------------------------------------------------------------------------------------------- input


class SpeechStarted(Event, tag="input_audio_buffer.speech_started"):
    """Somebody began to speak. The time is in milliseconds of the session's audio, with the padding before the
    speech."""

    audio_start_ms: int
    item_id: str


class SpeechStopped(Event, tag="input_audio_buffer.speech_stopped"):
    """They ended. The silence that told so is included."""

    audio_end_ms: int
    item_id: str


class Committed(Event, tag="input_audio_buffer.committed"):
    """The audio became an item."""

    item_id: str
    previous_item_id: str | None


class Cleared(Event, tag="input_audio_buffer.cleared"):
    """The audio that was not committed is forgotten."""


class TranscriptionDelta(Event, tag="conversation.item.input_audio_transcription.delta"):
    """Words that stay, which are to be appended."""

    item_id: str
    content_index: int
    delta: str


class DurationUsage(msgspec.Struct, tag="duration"):
    """Seconds of audio that were heard for an item."""

    seconds: float


class LanguageCode(msgspec.Struct):
    """ISO 639-1."""

    code: str


class TimedWord(msgspec.Struct):
    """One word, in seconds of the session's audio."""

    word: str
    start: float
    end: float


class TranscriptionCompleted(Event, tag="conversation.item.input_audio_transcription.completed"):
    """The whole text of an item. Where it differs from the deltas, it is the right one."""

    item_id: str
    content_index: int
    transcript: str
    usage: DurationUsage
    languages: list[LanguageCode]
    words: list[TimedWord]


class ItemFault(msgspec.Struct, omit_defaults=True):
    """Why an item has no text. ``param`` is left out where nothing is to blame: null is not in the schema."""

    type: str
    code: str
    message: str
    param: str | None = None


class TranscriptionFailed(Event, tag="conversation.item.input_audio_transcription.failed"):
    """An item cannot be heard."""

    item_id: str
    content_index: int
    error: ItemFault


# ---------------------------------------------------------------------------------------------------- conversation


class ItemAdded(Event, tag="conversation.item.added"):
    """An item joined the conversation, perhaps unfinished."""

    previous_item_id: str | None
    item: Item


class ItemDone(Event, tag="conversation.item.done"):
    """An item is finished."""

    previous_item_id: str | None
    item: Item


class ItemRetrieved(Event, tag="conversation.item.retrieved"):
    """An item as the daemon has it."""

    item: Item


class ItemDeleted(Event, tag="conversation.item.deleted"):
    """An item left the conversation: deleted, or the oldest of too many."""

    item_id: str


class ItemTruncated(Event, tag="conversation.item.truncated"):
    """The text after what was played is forgotten."""

    item_id: str
    content_index: int
    audio_end_ms: int


# -------------------------------------------------------------------------------------------------------- response


class TokenDetails(msgspec.Struct):
    """The tokens of each kind."""

    text_tokens: int
    audio_tokens: int


class Usage(msgspec.Struct):
    """Tokens that the chat endpoint counted; ``audio_tokens``: frames that were spoken."""

    total_tokens: int
    input_tokens: int
    output_tokens: int
    input_token_details: TokenDetails
    output_token_details: TokenDetails


class StatusDetails(msgspec.Struct, omit_defaults=True):
    """Why a response did not complete."""

    type: str
    reason: str | None = None
    error: ItemFault | None = None


class Response(msgspec.Struct):
    """A response as it stands."""

    id: str
    object: str
    status: str
    status_details: StatusDetails | None
    output: list[Item]
    conversation_id: str | None
    output_modalities: list[str]
    max_output_tokens: int | str
    audio: dict[str, Any]
    usage: Usage | None
    metadata: dict[str, str] | None


class ResponseCreated(Event, tag="response.created"):
    """A response begins."""

    response: Response


class ResponseDone(Event, tag="response.done"):
    """A response is over: completed, cancelled, incomplete or failed."""

    response: Response


class _OfResponse(Event):
    response_id: str
    output_index: int


class OutputItemAdded(_OfResponse, tag="response.output_item.added"):
    """A response begins an item."""

    item: Item


class OutputItemDone(_OfResponse, tag="response.output_item.done"):
    """A response finished an item."""

    item: Item


class _OfItem(_OfResponse):
    item_id: str


class _OfContent(_OfItem):
    content_index: int


class ContentPartAdded(_OfContent, tag="response.content_part.added"):
    """A message gets its content."""

    part: Content


class ContentPartDone(_OfContent, tag="response.content_part.done"):
    """The content is complete."""

    part: Content


class TextDelta(_OfContent, tag="response.output_text.delta"):
    """Text of a response without sound."""

    delta: str


class TextDone(_OfContent, tag="response.output_text.done"):
    """All text of a response without sound."""

    text: str


class AudioTranscriptDelta(_OfContent, tag="response.output_audio_transcript.delta"):
    """Text that is being spoken; it runs ahead of the sound."""

    delta: str


class AudioTranscriptDone(_OfContent, tag="response.output_audio_transcript.done"):
    """All text that is spoken."""

    transcript: str


class AudioDelta(_OfContent, tag="response.output_audio.delta"):
    """Sound in the session's output format, base64; it comes faster than it plays."""

    delta: str


class AudioDone(_OfContent, tag="response.output_audio.done"):
    """All sound of the item was sent."""


class PlaybackStarted(Event, tag="output_audio_buffer.started"):
    """The sound of a response begins to be played. These three are told in calls, whose sound the daemon paces."""

    response_id: str


class PlaybackStopped(PlaybackStarted, tag="output_audio_buffer.stopped"):
    """All of it was played."""


class PlaybackCleared(PlaybackStarted, tag="output_audio_buffer.cleared"):
    """What was not played is taken back: somebody speaks, or the client wants that."""


class ArgumentsDelta(_OfItem, tag="response.function_call_arguments.delta"):
    """A part of a function call's arguments (JSON)."""

    call_id: str
    delta: str


class ArgumentsDone(_OfItem, tag="response.function_call_arguments.done"):
    """All arguments of a function call (JSON)."""

    call_id: str
    name: str
    arguments: str
