"""What a client of ``/v1/realtime`` says, one struct an event.

Names and fields follow the types of OpenAI's SDK 3 (``openai/types/realtime``). Fields nobody here reads are accepted.
"""

from typing import Any, Final

import msgspec

from daemon.messages import Whole, decoded, wrong_field
from daemon.openai.realtime.items import Item


class ClientEvent(msgspec.Struct, tag_field="type", kw_only=True):
    """An event of a client. Its id, which the client chose, is named in an ``error`` about it."""

    event_id: str | None = None


class SessionUpdate(ClientEvent, tag="session.update"):
    """Change the session; what is absent stays as it is."""

    session: dict[str, Any]


class TranscriptionSessionUpdate(ClientEvent, tag="transcription_session.update"):
    """The same for a session that only hears, as clients said it before the protocol was released."""

    session: dict[str, Any]


class InputAudioBufferAppend(ClientEvent, tag="input_audio_buffer.append"):
    """Audio in the session's input format, base64."""

    audio: str


class InputAudioBufferCommit(ClientEvent, tag="input_audio_buffer.commit"):
    """Make an item of the audio so far: it is a turn."""


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
    """Forget the text of a spoken item that was not played."""

    item_id: str
    content_index: Whole
    audio_end_ms: Whole


class ResponseCreate(ClientEvent, tag="response.create"):
    """Answer now. ``response`` overrides the session for this answer."""

    response: dict[str, Any] | None = None


class ResponseCancel(ClientEvent, tag="response.cancel"):
    """Stop the response in progress."""

    response_id: str | None = None


class OutputAudioBufferClear(ClientEvent, tag="output_audio_buffer.clear"):
    """Stop speaking."""


Command = (
    SessionUpdate
    | TranscriptionSessionUpdate
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
    """The id of an event that was not understood; None where it has none."""
    try:
        found = decoded(text, _ids).event_id
    except msgspec.MsgspecError:
        return None
    return found[:512] if isinstance(found, str) else None


def field(text: str) -> str | None:
    """The field because of which an event was not understood; None where no field is to blame."""
    return wrong_field(text, Command)
