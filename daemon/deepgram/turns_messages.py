"""Messages of ``/v2/listen`` (Flux), one struct each. Names and required fields follow deepgram-sdk 7
(``deepgram/listen/v2/types``)."""

from typing import Final

import msgspec

from daemon.deepgram.listen_messages import CloseStream, KeepAlive
from daemon.messages import Whole


class Connected(msgspec.Struct, tag="Connected", tag_field="type"):
    """The stream is open."""

    request_id: str
    sequence_id: int


class TurnWord(msgspec.Struct):
    """A word as it stands in the transcript, with its times in seconds."""

    word: str
    confidence: float
    start: float
    end: float


class TurnInfo(msgspec.Struct, tag="TurnInfo", tag_field="type", omit_defaults=True):
    """Where a turn stands. ``event``: StartOfTurn, Update, EagerEndOfTurn, TurnResumed, EndOfTurn; ``transcript``: all
    that was said in the turn so far; ``trigger``: what ended it."""

    request_id: str
    sequence_id: int
    event: str
    turn_index: int
    audio_window_start: float
    audio_window_end: float
    transcript: str
    words: list[TurnWord]
    end_of_turn_confidence: float
    trigger: str | None = None
    languages: list[str] | None = None


class Thresholds(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The rules by which a turn ends. A rule that is not given stays as it is."""

    eot_threshold: float | None = None
    eager_eot_threshold: float | msgspec.UnsetType | None = msgspec.UNSET
    eot_timeout_ms: Whole | None = None


class ConfigureSuccess(msgspec.Struct, tag="ConfigureSuccess", tag_field="type"):
    """The rules that count from now on."""

    request_id: str
    sequence_id: int
    thresholds: Thresholds
    keyterms: list[str]


class ConfigureFailure(msgspec.Struct, tag="ConfigureFailure", tag_field="type"):
    """Nothing of a ``Configure`` was taken."""

    request_id: str
    sequence_id: int
    code: str
    description: str


class TurnsWarning(msgspec.Struct, tag="Warning", tag_field="type"):
    """Something is not as it was asked for; the stream goes on."""

    request_id: str
    sequence_id: int
    code: str
    description: str


class FatalError(msgspec.Struct, tag="Error", tag_field="type"):
    """The reason for which the stream ends."""

    sequence_id: int
    code: str
    description: str


class ForceEndTurn(msgspec.Struct, tag="ForceEndTurn", tag_field="type"):
    """The turn ends here, by the client's word."""


class Configure(msgspec.Struct, tag="Configure", tag_field="type"):
    """Change the stream from here on."""

    thresholds: Thresholds | None = None
    keyterms: list[str] | str | None = None
    language_hints: list[str] | None = None
    numerals: bool | str | None = None


class Kind(msgspec.Struct):
    """A message of which only the type is read."""

    type: str


Command = KeepAlive | CloseStream | ForceEndTurn | Configure

commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)
kinds: Final = msgspec.json.Decoder(Kind)
