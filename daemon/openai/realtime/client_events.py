"""What a client of ``/v1/realtime`` says, one struct an event.

Names and fields follow the types of OpenAI's SDK 3 (``openai/types/realtime``). Fields nobody here reads are accepted.
"""

import re
from typing import Any, Final

import msgspec

from daemon.messages import Whole
from daemon.openai.realtime.items import Item


class ClientEvent(msgspec.Struct, tag_field="type", kw_only=True):
    """What all events have: an id of the client's own, which an ``error`` names."""

    event_id: str | None = None


class SessionUpdate(ClientEvent, tag="session.update"):
    """Change the session; what is absent stays as it is."""

    session: dict[str, Any]


class InputAudioBufferAppend(ClientEvent, tag="input_audio_buffer.append"):
    """Audio in the session's input format, base64."""

    audio: str


class InputAudioBufferCommit(ClientEvent, tag="input_audio_buffer.commit"):
    """The audio so far is a turn: make it an item."""


class InputAudioBufferClear(ClientEvent, tag="input_audio_buffer.clear"):
    """Forget the audio that is not committed."""


class ConversationItemCreate(ClientEvent, tag="conversation.item.create"):
    """Add an item: a message, a function call, a function's output."""

    item: Item
    previous_item_id: str | None = None


class ConversationItemDelete(ClientEvent, tag="conversation.item.delete"):
    """Remove an item."""

    item_id: str


class ConversationItemRetrieve(ClientEvent, tag="conversation.item.retrieve"):
    """Tell an item as the daemon has it."""

    item_id: str


class ConversationItemTruncate(ClientEvent, tag="conversation.item.truncate"):
    """Of a spoken item only so much was played: forget the text after it."""

    item_id: str
    content_index: Whole
    audio_end_ms: Whole


class ResponseCreate(ClientEvent, tag="response.create"):
    """Answer now; ``response`` overrides the session for this once."""

    response: dict[str, Any] | None = None


class ResponseCancel(ClientEvent, tag="response.cancel"):
    """Stop the response in progress."""

    response_id: str | None = None


class OutputAudioBufferClear(ClientEvent, tag="output_audio_buffer.clear"):
    """Stop speaking."""


Command = (
    SessionUpdate
    | InputAudioBufferAppend
    | InputAudioBufferCommit
    | InputAudioBufferClear
    | ConversationItemCreate
    | ConversationItemDelete
    | ConversationItemRetrieve
    | ConversationItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputAudioBufferClear
)

commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)


class _Id(msgspec.Struct):
    event_id: Any = None


_ids: Final = msgspec.json.Decoder(_Id)


def event_id(text: str) -> str | None:
    """The id of an event that was not understood, if it has one."""
    try:
        found = _ids.decode(text).event_id
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found[:512] if isinstance(found, str) else None


_FIELD: Final = re.compile(r"(?:required field `([^`]*)`)?(?: - at `\$\.?([^`]*)`)?; known are ")


def field(reason: str) -> str | None:
    """The field that an event was not understood for, if it is one."""
    found = _FIELD.search(reason)
    return ".".join(filter(None, (found[2], found[1]))) or None if found else None
