"""``/v1/speak`` in Deepgram's shape: a WebSocket where text streams in and raw audio out. The endpoint of ``/v2/speak``
too, whose WebSocket speaks in turns; a POST of one text is the same at both."""

from starlette.types import Receive, Scope, Send

from codec.events import Cleared, Event, Flushed, PieceMark, SpeechWarning
from codec.model import TtsModel
from daemon import paths
from daemon.deepgram import speak_messages as wire
from daemon.deepgram.speak_query import SpeakRequest, file_request, parse
from daemon.deepgram.speak_turns import SpeakTurnsStream
from daemon.deepgram.spoken_stream import MOST_FLUSHES, SpokenStream, open_speech
from daemon.duplex import Ending, echoed
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.refusal import Refused
from daemon.speaking import SpeechStream
from daemon.spoken_file import speak_file


async def speak(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, open a speaker, and speak."""
    loaded, endpoint = hub.speaking_model(), paths.endpoint(scope["path"])
    if scope["type"] == "websocket":
        request = parse(scope["query_string"], loaded.name, strict=hub.settings.strict)
        async with open_speech(hub, request, endpoint) as (speech, warnings):
            if endpoint is paths.SPEAK:
                stream = SpeakStream(hub, loaded, request, speech, warnings, receive, send)
            else:
                stream = SpeakTurnsStream(hub, loaded, speech, warnings, receive, send)
            await stream.run(echoed(scope))
    elif scope["method"] == "POST":
        request = await file_request(scope, receive, hub.settings, loaded)
        await speak_file(hub, endpoint.path, request, receive, send)
    else:
        raise Refused(426, "upgrade", f"{endpoint.path} is a WebSocket, or a POST of a JSON object with text")


class SpeakStream(SpokenStream):
    """One connection, from accept to close."""

    _commands = wire.commands
    _nothing_came = "nothing to say and no KeepAlive"

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[TtsModel],
        request: SpeakRequest,
        speech: SpeechStream,
        warnings: list[str],
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, loaded, speech, receive, send)
        self._request = request
        self._flushes = 0
        """The number of Flushes that are not answered yet."""
        self._say(
            wire.Metadata(
                request_id=self._id,
                model_name=loaded.name,
                model_version="1",
                model_uuid=loaded.uuid,
                additional_model_uuids=[],
                voice=self._voice,
                encoding=request.encoding,
                sample_rate=request.sample_rate,
                seed=speech.speaker.seed,
                warnings=warnings,
            )
        )

    @property
    def _last_sign(self) -> float:
        return max(self._alive_at, self._speech.busy_until)

    # ------------------------------------------------------------------------------------------------- in

    async def _follow(self, command: wire.Command) -> None:
        match command:
            case wire.Clear():  # A Clear also stops what is spoken to its end because of a Close.
                self._forget()
            case wire.Speak() | wire.Flush() if self._ending is not None:
                self._taken_no_more()
            case wire.Speak():
                self._taken(command.text)
            case wire.Flush():
                self._flush()
            case wire.Close():
                self._end(Ending(1000))
            case wire.KeepAlive():
                pass

    def _flush(self) -> None:
        if self._flushes >= MOST_FLUSHES:
            reason = f"{self._flushes} Flush messages wait for their answer, which is the limit"
            self._warn("FLUSH_LIMIT", f"{reason}; this message was not taken")
            return
        self._flushes += 1
        self._speech.flush()

    def _forget(self) -> None:
        self._flushes = 0
        super()._forget()

    # ------------------------------------------------------------------------------------------------- out

    def _tell(self, event: Event) -> None:
        match event:
            case Flushed():
                self._flushes = max(0, self._flushes - 1)  # A Clear may have forgotten the Flush meanwhile.
                self._say(wire.Flushed(event.sequence))
            case Cleared() if self._ending is None or self._ending.code in (1000, 1012):
                self._say(wire.Cleared(event.sequence))
            case SpeechWarning():
                self._warn(event.code.upper(), event.description)
            case PieceMark() if self._request.marks:
                self._say(wire.piece(event))
            case _:
                pass
