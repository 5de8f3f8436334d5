"""Twilio's media streams: ``/twilio/converse`` answers a caller, ``/twilio/hear`` writes down what is said.

Messages follow https://www.twilio.com/docs/voice/media-streams/websocket-messages. ``<Parameter>``s of the TwiML's
``<Stream>`` may say ``instructions``, ``voice``, ``language`` and a ``greeting``. Transcripts are messages of ours
(``{"event": "transcript"}``), for a program that passes a call's messages on.
"""

from typing import Any, Final

import msgspec
from starlette.types import Message, Receive, Scope, Send

from daemon.duplex import Ending, echoed
from daemon.hub import Hub
from daemon.messages import decoded
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.call import Call, telephone
from daemon.openai.realtime.capability import check_answers
from daemon.openai.realtime.session import decoded as audio
from daemon.openai.realtime.spec import Invalid
from daemon.paths import TWILIO_CONVERSE
from daemon.refusal import Refused

_MULAW: Final = {"type": "audio/pcmu", "rate": 8_000}


class MediaFormat(msgspec.Struct, rename="camel"):
    """The format of a call's sound."""

    encoding: str = "audio/x-mulaw"
    sample_rate: int = 8_000
    channels: int = 1


class Start(msgspec.Struct, rename="camel"):
    """The description of a stream in its first message."""

    media_format: MediaFormat = msgspec.field(default_factory=MediaFormat)
    custom_parameters: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Media(msgspec.Struct):
    """Sound in base64. Of the two tracks that a stream may have, ``outbound`` is what the caller is told."""

    payload: str
    track: str = "inbound"


class Incoming(msgspec.Struct, rename="camel"):
    """A message from Twilio. The events ``connected``, ``mark`` and ``dtmf`` have no effect."""

    event: str
    stream_sid: str = ""
    start: Start | None = None
    media: Media | None = None


_incoming: Final = msgspec.json.Decoder(Incoming)


async def twilio(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, then run the call."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{scope['path']} is a WebSocket")
    hub.hearing_model()
    converses = scope["path"] == TWILIO_CONVERSE.path
    if converses:
        check_answers(hub)
    config = telephone(hub, "realtime" if converses else "transcription")
    await TwilioStream(hub, config, _MULAW, _MULAW, receive, send).run(echoed(scope))


class TwilioStream(Call):
    """One stream of a call."""

    _commands = _incoming
    _opens_late = True
    _stream = ""

    async def _open(self, message: Message) -> bool:
        command = decoded(message.get("text") or "", _incoming)
        if command.event != "start":
            return False
        given = (command.start or Start()).media_format
        if (given.encoding, given.sample_rate, given.channels) != ("audio/x-mulaw", 8_000, 1):
            raise Refused(400, "media_format", "mediaFormat: only audio/x-mulaw, 8000 Hz, one channel is heard here")
        self._stream = command.stream_sid[:64]
        return True

    async def _act(self, command: Any) -> None:
        match command:
            case Incoming(event="start"):
                await self._begin((command.start or Start()).custom_parameters)
            case Incoming(event="media", media=Media(payload=payload, track="inbound" | "inbound_track")):
                self._append(audio(payload))
            case Incoming(event="stop"):
                self._end(Ending(1000))
            case _:
                pass

    async def _begin(self, given: dict[str, str]) -> None:
        """Configure the session as the TwiML asks, and greet the caller."""
        patch: dict[str, Any] = {"audio": {"input": {"transcription": {"language": given.get("language")}}}}
        if self._config.spec.type == "realtime":
            patch["audio"]["output"] = {"voice": given.get("voice")}
            patch["instructions"] = given.get("instructions", "")
        try:
            await self._update({"type": self._config.spec.type, **patch}, is_beta=None)
            if greeting := given.get("greeting"):
                self._create({}, self._answer_spec({}), greeting)
        except Invalid as error:
            self._end(Ending(1008, error.code, str(error)))

    # ------------------------------------------------------------------------------------------------ out

    def _tell(self, event: str, *, sound: bool = False, **fields: Any) -> None:
        message = msgspec.json.encode({"event": event, "streamSid": self._stream, **fields})
        if sound:
            self._outbox.put_sound(message, text=True)
        else:
            self._outbox.put(message)

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Send Twilio its message for an event, if there is one. After a complete answer that is a mark, which Twilio
        sends back when the answer was played."""
        match event:
            case wire.SpeechStarted() if self._config.spec.type == "realtime":
                self._tell("clear")
            case wire.AudioDone():
                self._tell("mark", mark={"name": event.response_id})
            case wire.TranscriptionCompleted() if self._config.spec.type == "transcription" and event.transcript:
                words = msgspec.to_builtins(event.words)
                self._tell("transcript", transcript={"text": event.transcript, "words": words})
            case wire.Error():
                self._tell("error", error=msgspec.to_builtins(event.error))
            case _:
                pass

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Send sound, as long as nobody interrupts."""
        self._tell("media", sound=True, media={"payload": event.delta})
