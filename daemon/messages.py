"""What both WebSockets of Deepgram's protocol say alike: messages as JSON, and what went wrong."""

from typing import Final

import msgspec

_encoder: Final = msgspec.json.Encoder()


class Error(msgspec.Struct, tag="Error", tag_field="type"):
    """What went wrong, in words. The stream goes on unless a close follows."""

    variant: str
    description: str
    message: str = ""


def encode(message: msgspec.Struct) -> bytes:
    """JSON text in UTF-8."""
    return _encoder.encode(message)
