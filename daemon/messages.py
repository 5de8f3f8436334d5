"""What the sockets say alike: messages as JSON, and what went wrong."""

from typing import Annotated, Final, TypeVar

import msgspec

_encoder: Final = msgspec.json.Encoder()
M = TypeVar("M")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A whole number that any reader of JSON keeps; others are not understood, and would be too large to reckon with."""


class Error(msgspec.Struct, tag="Error", tag_field="type"):
    """What went wrong, in words. The stream goes on unless a close follows."""

    variant: str
    description: str
    message: str = ""


def encode(message: msgspec.Struct) -> bytes:
    """JSON text in UTF-8."""
    return _encoder.encode(message)


def decoded(text: str | bytes, decoder: "msgspec.json.Decoder[M]") -> M:
    """A client's message.

    Raises:
        msgspec.MsgspecError: not JSON, or none of the messages that ``decoder`` knows.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply") from None
