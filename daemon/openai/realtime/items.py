"""Items of a conversation as they go over the wire: messages, function calls and what functions gave."""

import secrets
from typing import Literal

import msgspec

Status = Literal["", "completed", "incomplete", "in_progress"]
"""How far an item is; empty where nobody has told."""


class Content(msgspec.Struct, omit_defaults=True):
    """A part of a message.

    OpenAI's schema wants ``transcript`` in every ``input_audio``, null while it is not known: JavaScript's agents check
    it, and their process ends where it is absent.
    """

    type: Literal["input_text", "input_audio", "input_image", "output_text", "output_audio", "text", "audio"]
    text: str | None = None
    transcript: str | None | msgspec.UnsetType = msgspec.UNSET
    audio: str | None = None
    image_url: str | None = None
    detail: Literal["auto", "low", "high"] | None = None

    @property
    def said(self) -> str | None:
        """What the sound of the part says, where that is known."""
        return self.transcript if isinstance(self.transcript, str) else None


class Item(msgspec.Struct, omit_defaults=True):
    """One item. Which fields it has depends on its ``type``."""

    type: Literal["message", "function_call", "function_call_output"]
    id: str = ""
    object: str = ""
    status: Status = ""
    role: Literal["user", "assistant", "system"] | None = None
    content: list[Content] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None


def new_id(prefix: str) -> str:
    """An id that nobody can guess: ``item_…``, ``resp_…``."""
    return f"{prefix}_{secrets.token_hex(12)}"


def spoken_item(identifier: str, transcript: str | None) -> Item:
    """The item for what a person said. None: the text is not known yet."""
    content = [Content("input_audio", transcript=transcript)]
    return Item("message", identifier, "realtime.item", "completed", "user", content)
