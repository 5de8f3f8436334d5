"""The messages of Deepgram's ``/v1/speak``, a struct each.

Field names and which of them are required follow the types of deepgram-sdk 7 (``deepgram/speak/v1/types``). Extra keys
of ours: ``voice``, ``encoding``, ``sample_rate``, ``seed`` and ``warnings`` on Metadata; ``KeepAlive`` and ``Piece``.
"""

from typing import Final

import msgspec

from codec.events import PieceMark


class Metadata(msgspec.Struct, tag="Metadata", tag_field="type"):
    """The stream's first message."""

    request_id: str
    model_name: str
    model_version: str
    model_uuid: str
    additional_model_uuids: list[str]
    voice: str | None
    encoding: str
    sample_rate: int
    seed: int
    """The same text with this seed sounds the same."""
    warnings: list[str]


class Flushed(msgspec.Struct, tag="Flushed", tag_field="type"):
    """All audio of the text before the ``sequence_id``-th Flush (0, 1, …) has been sent."""

    sequence_id: int


class Cleared(msgspec.Struct, tag="Cleared", tag_field="type"):
    """No audio of the text before the ``sequence_id``-th Clear (0, 1, …) follows."""

    sequence_id: int


class SpeakWarning(msgspec.Struct, tag="Warning", tag_field="type"):
    """Something went otherwise than asked; the stream goes on."""

    description: str
    code: str


class WordSpoken(msgspec.Struct):
    """A word, or an expression such as "5 km": when it was spoken, and which characters of the text it was."""

    word: str
    start: float
    end: float
    start_char: int
    end_char: int


class PieceSpoken(msgspec.Struct, tag="Piece", tag_field="type"):
    """With ``marks=true``: the times at which a piece of the text is heard (seconds of the stream's audio), and which
    characters it was."""

    text: str
    start: float
    end: float
    start_char: int
    end_char: int
    words: list[WordSpoken]


class Speak(msgspec.Struct, tag="Speak", tag_field="type"):
    """Text to append."""

    text: str


class Flush(msgspec.Struct, tag="Flush", tag_field="type"):
    """The text so far is complete: speak it to its end."""


class Clear(msgspec.Struct, tag="Clear", tag_field="type"):
    """Forget the text so far and stop speaking it."""


class Close(msgspec.Struct, tag="Close", tag_field="type"):
    """No more text; close when all of it is spoken."""


class KeepAlive(msgspec.Struct, tag="KeepAlive", tag_field="type"):
    """The client is still there, without text."""


Command = Speak | Flush | Clear | Close | KeepAlive

commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)


def piece(mark: PieceMark) -> PieceSpoken:
    """``mark`` as a message."""
    words = [WordSpoken(w.text, round(w.start, 3), round(w.end, 3), w.start_char, w.end_char) for w in mark.words]
    return PieceSpoken(mark.text, round(mark.start, 4), round(mark.end, 4), mark.start_char, mark.end_char, words)
