"""A session's object as the daemon reads it: one struct for each object in it, and what they mean for listener and
speaker."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from codec.options import SpeakOptions
from daemon.names import language
from engines.sessions import OptionError
from streaming.options import MAX_PREROLL, THRESHOLDS, ListenOptions
from streaming.turn import Turn

_FORMATS: Final = {
    "audio/pcm": ("linear16", 24_000, 2), "audio/pcmu": ("mulaw", 8_000, 1), "audio/pcma": ("alaw", 8_000, 1),
}  # fmt: skip
"""OpenAI's names of formats, each with our encoding, its rate, and the bytes of a sample."""

PADDING_MS: Final = 300
SILENCE_MS: Final = 500
"""OpenAI's defaults of turn detection."""
_MEDIUM: Final = Turn(0.8, 4.0, least=0.7)
_EAGERNESS: Final = {
    "low": Turn(0.9, 8.0, least=1.2),
    "medium": _MEDIUM,
    "high": Turn(0.6, 2.0, least=0.35),
    "auto": _MEDIUM,
}
"""How sure it must be that a turn has ended; the longest silence, which is OpenAI's, and the shortest."""
_MOST_MILLISECONDS: Final = 10_000
"""Milliseconds of silence that may end a turn. A client that asks for more gets this, as a person waits no longer."""

Modality = Literal["text", "audio"]


class Invalid(ValueError):
    """A value of an event that cannot be honoured; ``param`` names it."""

    def __init__(self, param: str | None, message: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param, self.code = param, code


class Format(msgspec.Struct, omit_defaults=True):
    """A format of audio."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"]
    rate: int | None = None

    @property
    def encoding(self) -> str:
        """The encoding by the name that ``audio`` has for it."""
        return _FORMATS[self.type][0]

    @property
    def sample_rate(self) -> int:
        """Hertz."""
        return (self.rate if self.type == "audio/pcm" else None) or _FORMATS[self.type][1]

    @property
    def bytes_per_second(self) -> int:
        """Bytes of a second on the wire, before base64."""
        return _FORMATS[self.type][2] * self.sample_rate


class Transcription(msgspec.Struct):
    """How the words of a person are written."""

    model: str | None = None
    language: str | None = None
    languages: list[str] | None = None
    prompt: str | None = None
    keywords: list[str] | None = None
    delay: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None


class TurnDetection(msgspec.Struct):
    """When the turn of a person begins and ends."""

    type: Literal["server_vad", "semantic_vad"]
    threshold: float | None = None
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None
    idle_timeout_ms: int | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class NoiseReduction(msgspec.Struct):
    """Where the microphone is."""

    type: Literal["near_field", "far_field"] | None = None


class Input(msgspec.Struct):
    """The audio that comes."""

    format: Format
    transcription: Transcription | None = None
    noise_reduction: NoiseReduction | None = None
    turn_detection: TurnDetection | None = None


class VoiceId(msgspec.Struct):
    """The way in which OpenAI names a voice that a customer made."""

    id: str


class Output(msgspec.Struct):
    """The audio that goes."""

    format: Format
    voice: str | VoiceId | None = None
    speed: float | None = None


class Audio(msgspec.Struct):
    """The audio of both directions."""

    input: Input
    output: Output | None = None


class Tool(msgspec.Struct, omit_defaults=True):
    """A function that the model may call."""

    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: Any = None


class ToolChoice(msgspec.Struct):
    """The function that the model is to call."""

    type: Literal["function"]
    name: str


class Prompt(msgspec.Struct):
    """A prompt that OpenAI keeps for its customers."""

    id: str
    variables: dict[str, Any] | None = None
    version: str | None = None


class Tracing(msgspec.Struct):
    """What OpenAI's traces are called."""

    workflow_name: str | None = None
    group_id: str | None = None
    metadata: Any = None


class RetentionRatio(msgspec.Struct):
    """How much of a conversation that is too long is kept."""

    type: Literal["retention_ratio"]
    retention_ratio: float
    token_limits: dict[str, Any] | None = None


class Spec(msgspec.Struct):
    """A session's object, as the daemon reads it. What is not honoured has its published form all the same: clients
    that check an event stop at one that repeats anything else to them."""

    type: Literal["realtime", "transcription"]
    audio: Audio
    model: str | None = None
    instructions: str | None = None
    output_modalities: list[Modality] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    max_output_tokens: int | Literal["inf"] | None = None
    temperature: float | None = None
    parallel_tool_calls: bool | None = None
    metadata: dict[str, str] | None = None
    include: list[Literal["item.input_audio_transcription.logprobs"]] | None = None
    prompt: Prompt | None = None
    tracing: Literal["auto"] | Tracing | None = None
    truncation: Literal["auto", "disabled"] | RetentionRatio | None = None

    @property
    def output_audio(self) -> dict[str, Any]:
        """The object that tells how a response sounds. In it a voice is its name."""
        output = self.audio.output
        if output is None:
            return {}
        voice = output.voice.id if isinstance(output.voice, VoiceId) else output.voice
        return {"output": {"format": msgspec.to_builtins(output.format), "voice": voice, "speed": output.speed}}

    @property
    def speaks(self) -> bool:
        """Whether answers are spoken, and not only written."""
        return "audio" in (self.output_modalities or ["audio"])

    @property
    def turns(self) -> TurnDetection | None:
        """Turn detection; None where the client makes the turns."""
        return self.audio.input.turn_detection

    @property
    def transcribes(self) -> bool:
        """Whether the client is told what was heard."""
        return self.type == "transcription" or self.audio.input.transcription is not None

    def without_turns(self) -> "Spec":
        """The same session without turn detection: what is heard is one turn."""
        heard = msgspec.structs.replace(self.audio.input, turn_detection=None)
        return msgspec.structs.replace(self, audio=msgspec.structs.replace(self.audio, input=heard))

    @property
    def padding_ms(self) -> int:
        """Milliseconds of audio before an onset that belong to the turn."""
        turns = self.turns
        asked = turns.prefix_padding_ms if turns is not None else None
        return PADDING_MS if asked is None else max(0, min(asked, round(1000 * MAX_PREROLL)))

    @property
    def silence_ms(self) -> int:
        """Milliseconds of silence that end a turn of ``server_vad``."""
        turns = self.turns
        assert turns is not None
        asked = SILENCE_MS if turns.silence_duration_ms is None else turns.silence_duration_ms
        return max(10, min(asked, _MOST_MILLISECONDS))

    @property
    def ending(self) -> Turn | float | None:
        """What ends a turn; None where the client does."""
        turns = self.turns
        if turns is not None and turns.type == "semantic_vad":
            return _EAGERNESS[turns.eagerness or "auto"]
        return None if turns is None else self.silence_ms / 1000

    def listen_options(self) -> ListenOptions:
        """The options of the listener.

        Raises:
            Invalid: too many words to listen for.
        """
        wanted = self.audio.input.transcription or Transcription()
        several = wanted.languages or []
        forced = language(wanted.language or (several[0] if len(several) == 1 else ""))
        turns = self.turns
        threshold = 0.5 if turns is None or turns.threshold is None else turns.threshold
        try:
            return ListenOptions(
                language=forced,
                keyterms=(*([wanted.prompt] if wanted.prompt else []), *(wanted.keywords or [])),
                endpointing=self.ending,
                threshold=max(THRESHOLDS[0], min(threshold, THRESHOLDS[1])),
                preroll=self.padding_ms / 1000,
            )
        except OptionError as error:
            name = "prompt" if wanted.prompt else "keywords"
            raise Invalid(f"session.audio.input.transcription.{name}", f"{name}: {error.reason}") from None

    def speak_options(self) -> SpeakOptions:
        """The options of the speaker.

        Raises:
            Invalid: the speed.
        """
        output = self.audio.output
        assert output is not None
        voice = output.voice.id if isinstance(output.voice, VoiceId) else output.voice
        try:
            return SpeakOptions(
                voice=voice or None,
                speed=1.0 if output.speed is None else output.speed,
                sample_rate=output.format.sample_rate,
            )
        except OptionError as error:
            raise Invalid(f"session.audio.output.{error.field}", str(error)) from None


OBJECTS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "audio": Audio, "input": Input, "output": Output, "format": Format,
    "transcription": Transcription, "turn_detection": TurnDetection,
}  # fmt: skip
"""The structs within a session's, by the name that each of them has wherever it stands."""
