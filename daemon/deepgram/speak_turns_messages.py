"""Messages of ``/v2/speak`` (Flux TTS), one struct each. Names and required fields follow deepgram-sdk 7
(``deepgram/speak/v2/types``). Lengths are milliseconds of the session's audio."""

from typing import Final, Literal

import msgspec

from daemon.deepgram.speak_messages import Close, Flush, Speak
from daemon.messages import Whole


class Connected(msgspec.Struct, tag="Connected", tag_field="type"):
    """The stream is open. ``voice`` and ``seed`` are keys of ours."""

    request_id: str
    model_name: str
    model_version: str
    model_uuids: list[str]
    voice: str | None
    seed: int
    """The same text with this seed sounds the same."""


class SpeechStarted(msgspec.Struct, tag="SpeechStarted", tag_field="type"):
    """A turn begins: all audio up to its SpeechMetadata is its own."""

    speech_id: str


class Flushed(msgspec.Struct, tag="Flushed", tag_field="type"):
    """A Flush has come: the turn has all its text. Its audio goes on."""

    speech_id: str


class ControlsApplied(msgspec.Struct):
    """How many inline controls were applied: none, since they are not supported."""

    pronunciations_applied: int = 0
    breaks_applied: int = 0
    pronunciation_warnings: int = 0


class TurnMetadata(msgspec.Struct):
    """A turn in numbers. Nothing is billed, so both counts are those of its text."""

    speech_id: str
    audio_duration_ms: int
    input_character_count: int
    billable_character_count: int
    controls_applied: ControlsApplied = msgspec.field(default_factory=ControlsApplied)


class SpeechMetadata(TurnMetadata, tag="SpeechMetadata", tag_field="type"):
    """A turn is spoken: all its audio has been sent."""


class SpeechInterrupted(msgspec.Struct, tag="SpeechInterrupted", tag_field="type", omit_defaults=True):
    """An Interrupt has ended what was being said: no audio from before it follows. ``text_spoken`` and
    ``text_remaining`` are there only where the Interrupt told how much was played.

    ``text_spoken`` and ``text_remaining`` only where the Interrupt told how much was played.
    """

    audio_played_ms: int
    metadata: TurnMetadata
    text_spoken: str | None = None
    text_remaining: str | None = None


class SessionMetadata(msgspec.Struct, tag="SessionMetadata", tag_field="type"):
    """The last message: the whole session in numbers."""

    total_audio_duration_ms: int
    total_input_character_count: int
    total_billable_character_count: int


class Applied(msgspec.Struct):
    """The controls that count from the next sentence on."""

    speed: float


class ConfigureSuccess(msgspec.Struct, tag="ConfigureSuccess", tag_field="type"):
    """A Configure was taken."""

    applied: Applied


class ConfigureFailure(msgspec.Struct, tag="ConfigureFailure", tag_field="type"):
    """Nothing of a Configure was taken."""

    code: str
    field: str
    value: float
    description: str


class FatalError(msgspec.Struct, tag="Error", tag_field="type"):
    """The reason for which the stream ends."""

    code: str
    description: str


class PlaybackOffset(msgspec.Struct):
    """How much of the session's audio was played."""

    type: Literal["time_ms"]
    value: Whole


class Interrupt(msgspec.Struct, tag="Interrupt", tag_field="type"):
    """Somebody speaks: stop, and forget what was to be said."""

    playback_offset: PlaybackOffset | None = None


class Configure(msgspec.Struct, tag="Configure", tag_field="type"):
    """Change how the next sentences are spoken."""

    speed: float | None = None


Command = Speak | Flush | Interrupt | Configure | Close

commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)
