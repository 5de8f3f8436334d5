"""Messages of ``/v1/agent/converse``, one struct each. Names and required fields follow deepgram-sdk 7
(``deepgram/agent/v1/types``). Fields that nobody here reads are accepted."""

from typing import Any, Final

import msgspec

from daemon.deepgram.listen_messages import KeepAlive


class AudioFormat(msgspec.Struct):
    """A format of audio; ``container`` is of sound that the agent makes."""

    encoding: str = "linear16"
    sample_rate: int | None = None
    container: str | None = None


class Audio(msgspec.Struct):
    """The formats of both directions."""

    input: AudioFormat | None = None
    output: AudioFormat | None = None


class Provider(msgspec.Struct):
    """Who hears, thinks or speaks. Here the daemon does, so that of a provider only its choices count."""

    type: str | None = None
    model: str | None = None
    voice: Any = None
    temperature: float | None = None
    language: str | None = None
    keyterms: list[str] | None = None


class Function(msgspec.Struct):
    """A function that the agent may call."""

    name: str
    description: str | None = None
    parameters: Any = None
    endpoint: Any = None


class Listen(msgspec.Struct):
    """How a person is heard."""

    provider: Provider = msgspec.field(default_factory=Provider)


class Think(msgspec.Struct):
    """How the answers are made."""

    provider: Provider = msgspec.field(default_factory=Provider)
    prompt: str | None = None
    functions: list[Function] | None = None


class Speak(msgspec.Struct):
    """The agent's voice."""

    provider: Provider = msgspec.field(default_factory=Provider)


class Agent(msgspec.Struct):
    """The agent. Of several who think or speak the first does."""

    listen: Listen | None = None
    think: Think | list[Think] | None = None
    speak: Speak | list[Speak] | None = None
    greeting: str | None = None
    language: str | None = None


class Settings(msgspec.Struct, tag="Settings", tag_field="type"):
    """The first message: all of the conversation."""

    agent: Agent
    audio: Audio = msgspec.field(default_factory=Audio)


class UpdatePrompt(msgspec.Struct, tag="UpdatePrompt", tag_field="type"):
    """The prompt of the agent from now on."""

    prompt: str


class UpdateSpeak(msgspec.Struct, tag="UpdateSpeak", tag_field="type"):
    """The voice from now on."""

    speak: Speak | list[Speak]


class UpdateThink(msgspec.Struct, tag="UpdateThink", tag_field="type"):
    """How answers are made from now on."""

    think: Think | list[Think]


class InjectUserMessage(msgspec.Struct, tag="InjectUserMessage", tag_field="type"):
    """What a person writes instead of speaking."""

    content: str


class InjectAgentMessage(msgspec.Struct, tag="InjectAgentMessage", tag_field="type"):
    """What the agent is to say."""

    message: str


class FunctionCallResponse(msgspec.Struct, tag="FunctionCallResponse", tag_field="type"):
    """What a function gave."""

    id: str
    name: str
    content: str


Command = (
    Settings
    | UpdatePrompt
    | UpdateSpeak
    | UpdateThink
    | InjectUserMessage
    | InjectAgentMessage
    | FunctionCallResponse
    | KeepAlive
)
commands: Final["msgspec.json.Decoder[Command]"] = msgspec.json.Decoder(Command)
