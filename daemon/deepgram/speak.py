"""``/v1/speak`` in Deepgram's shape: a WebSocket where text streams in and raw audio out. The endpoint of ``/v2/speak``
too, whose WebSocket speaks in turns; a POST of one text is the same at both."""

import time

import msgspec
from starlette.types import Receive, Scope, Send

from codec.events import Cleared, Event, Flushed, PieceMark, Warning
from codec.model import TtsModel
from daemon import paths
from daemon.deepgram import speak_messages as wire
from daemon.deepgram.speak_query import SpeakRequest, file_request, parse
from daemon.deepgram.speak_turns import SpeakTurnsStream
from daemon.deepgram.spoken_stream import MOST_FLUSHES, SpokenStream, opened
from daemon.duplex import Ending, echoed
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.messages import decoded
from daemon.refusal import Refused
from daemon.speaking import SpeechStream
from daemon.spoken_file import speak_file
from engines.sessions import OptionError


async def speak(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, open a speaker, speak."""
    loaded, endpoint = hub.speaking_model(), paths.endpoint(scope["path"])
    if scope["type"] == "websocket":
        request = parse(scope["query_string"], loaded.name)
        async with opened(hub, request, endpoint) as (speech, warnings):
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
        super().__init__(hub, speech, receive, send)
        self._request = request
        self._flushes = 0
        """Not answered yet."""
        speaker = speech.speaker
        self._say(
            wire.Metadata(
                request_id=self._id,
                model_name=loaded.name,
                model_version="1",
                model_uuid=loaded.uuid,
                additional_model_uuids=[],
                voice=speaker.options.voice or next(iter(loaded.model.manifest.voices), None),
                encoding=request.encoding,
                sample_rate=request.sample_rate,
                seed=speaker.seed,
                warnings=warnings,
            )
        )

    @property
    def _last_sign(self) -> float:
        return max(self._alive_at, self._speech.busy_until)

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        self._say(wire.Warning(f"a binary message of {len(data)} bytes: text goes in Speak messages", "BINARY"))

    def _take_text(self, text: str) -> None:
        try:
            command = decoded(text, wire.commands)
        except msgspec.MsgspecError as error:
            # The stream goes on, as Deepgram's does; but such text does not keep it from being idle.
            known = "known are Speak, Flush, Clear, Close, KeepAlive"
            self._say(wire.Warning(f"text message not understood: {error}; {known}", "NOT_UNDERSTOOD"))
            return
        self._alive_at = time.monotonic()
        match command:
            case wire.Clear():  # also of what is spoken to its end because of a Close
                self._forget()
            case wire.Speak() | wire.Flush() if self._ending is not None and self._ending.code == 1012:
                self._say(wire.Warning(f"{self._ending.reason}; this message was not taken", "SHUTTING_DOWN"))
            case _ if self._ending is not None:
                pass
            case wire.Speak():
                try:
                    self._speech.say(command.text)
                except OptionError as error:
                    self._say(wire.Warning(f"{error}; this message was not taken", "TEXT_LIMIT"))
            case wire.Flush():
                self._flush()
            case wire.Close():
                self._end(Ending(1000))
            case wire.KeepAlive():
                pass

    def _flush(self) -> None:
        if self._flushes >= MOST_FLUSHES:
            reason = f"{self._flushes} Flush messages wait for their answer, which is the limit"
            self._say(wire.Warning(f"{reason}; this message was not taken", "FLUSH_LIMIT"))
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
                self._flushes = max(0, self._flushes - 1)  # a Clear may have forgotten it meanwhile
                self._say(wire.Flushed(event.sequence))
            case Cleared() if self._ending is None or self._ending.code in (1000, 1012):
                self._say(wire.Cleared(event.sequence))
            case Warning():
                self._say(wire.Warning(event.description, event.code.upper()))
            case PieceMark() if self._request.marks:
                self._say(wire.piece(event))
            case _:
                pass
