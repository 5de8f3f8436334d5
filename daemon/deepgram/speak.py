"""``/v1/speak`` in Deepgram's shape: a WebSocket where text streams in and raw audio out, and a POST of one text.

A client that reads more slowly than the model speaks holds the speaker back; one that does not read at all is closed.
In good order: what was said is spoken to its end, then the close code (``daemon.duplex``).
"""

import time
from dataclasses import replace
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from audio import encoder
from audio.encoder import Encoder
from codec.events import Cleared, Event, Flushed, PieceMark, Warning
from codec.model import TtsModel
from daemon.answer import answering
from daemon.deepgram import speak_messages as wire
from daemon.deepgram.speak_query import SpeakRequest, file_request, parse
from daemon.duplex import Duplex, Ending, echoed
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.messages import encode
from daemon.paths import SPEAK
from daemon.refusal import Refused
from daemon.speaking import Sound, SpeechStream
from daemon.spoken_file import speak_file
from engines.sessions import OptionError

_BACKLOG_BYTES: Final = 1 << 16
"""Audio that may wait in the daemon before the speaker is held back: more than its largest group needs to be made."""

_MOST_FLUSHES: Final = 1000
"""That may wait for their answer: each keeps its place in the text."""


class Speak:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, open a speaker, speak."""
        hub = self._hub
        async with answering(hub, scope, send):
            loaded = hub.speaking_model()
            if scope["type"] == "websocket":
                await self._stream(loaded, scope, receive, send)
            elif scope["method"] == "POST":
                request = await file_request(scope, receive, hub.settings, loaded)
                await speak_file(hub, SPEAK.path, request, receive, send)
            else:
                raise Refused(426, "upgrade", f"{SPEAK.path} is a WebSocket, or a POST of a JSON object with text")

    async def _stream(self, loaded: Loaded[TtsModel], scope: Scope, receive: Receive, send: Send) -> None:
        hub = self._hub
        request = parse(scope["query_string"], loaded.name)
        told = list(request.warnings)
        worker = await hub.speak(request.options, told)
        request = replace(request, warnings=tuple(told))
        raw: Encoder | None = None
        try:
            raw = encoder.raw(request.encoding, request.sample_rate)
            speech = SpeechStream(worker, raw, hub.metrics, SPEAK.path, hub.playback)
            await SpeakStream(hub, loaded, request, speech, receive, send).run(echoed(scope))
        finally:
            await worker.close()
            if raw is not None:
                raw.close()


class SpeakStream(Duplex):
    """One connection, from accept to close."""

    _nothing_came = "nothing to say and no KeepAlive"

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[TtsModel],
        request: SpeakRequest,
        speech: SpeechStream,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, receive, send)
        self._request, self._speech = request, speech
        self._flushes = 0
        """Not answered yet."""
        speaker = speech.speaker
        self._tell(
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
                warnings=list(request.warnings),
            )
        )

    @property
    def _last_sign(self) -> float:
        return max(self._alive_at, self._speech.busy_until)

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        self._tell(wire.Warning(f"a binary message of {len(data)} bytes: text goes in Speak messages", "BINARY"))

    def _take_text(self, text: str) -> None:
        try:
            command = wire.command(text)
        except msgspec.MsgspecError as error:
            # The stream goes on, as Deepgram's does; but such text does not keep it from being idle.
            known = "known are Speak, Flush, Clear, Close, KeepAlive"
            self._tell(wire.Warning(f"text message not understood: {error}; {known}", "NOT_UNDERSTOOD"))
            return
        self._alive_at = time.monotonic()
        match command:
            case wire.Clear():  # also of what is spoken to its end because of a Close
                self._forget()
            case wire.Speak() | wire.Flush() if self._ending is not None and self._ending.code == 1012:
                self._tell(wire.Warning(f"{self._ending.reason}; this message was not taken", "SHUTTING_DOWN"))
            case _ if self._ending is not None:
                pass
            case wire.Speak():
                try:
                    self._speech.say(command.text)
                except OptionError as error:
                    self._tell(wire.Warning(f"{error}; this message was not taken", "TEXT_LIMIT"))
            case wire.Flush():
                self._flush()
            case wire.Close():
                self._end(Ending(1000))
            case wire.KeepAlive():
                pass

    def _flush(self) -> None:
        if self._flushes >= _MOST_FLUSHES:
            reason = f"{self._flushes} Flush messages wait for their answer, which is the limit"
            self._tell(wire.Warning(f"{reason}; this message was not taken", "FLUSH_LIMIT"))
            return
        self._flushes += 1
        self._speech.flush()

    def _forget(self) -> None:
        self._flushes = 0
        self._speech.clear()
        self._outbox.forget_sound()

    def _unfinished(self) -> str:
        return f"text that is not spoken, after {self._speech.seconds:.1f} s of audio"

    def _wind_up(self, ending: Ending) -> None:
        """Speak to the end where the client asked for that, or the daemon goes; else stop."""
        self._speech.finish()
        if ending.code not in (1000, 1012):
            self._forget()

    # ------------------------------------------------------------------------------------------------- out

    async def _work(self) -> None:
        """Speak until the stream's end."""
        most = self._settings.max_outbound_bytes
        async for batch in self._speech.batches():
            for item in batch:
                if isinstance(item, Sound):
                    await self._outbox.room(min(_BACKLOG_BYTES, max(0, most - len(item.data))))
                    if item.data and not self._speech.clearing:
                        self._outbox.put_sound(item.data)
                else:
                    self._tell_event(item)

    def _tell_event(self, event: Event) -> None:
        match event:
            case Flushed():
                self._flushes = max(0, self._flushes - 1)  # a Clear may have forgotten it meanwhile
                self._tell(wire.Flushed(event.sequence))
            case Cleared() if self._ending is None or self._ending.code in (1000, 1012):
                self._tell(wire.Cleared(event.sequence))
            case Warning():
                self._tell(wire.Warning(event.description, event.code.upper()))
            case PieceMark() if self._request.marks:
                self._tell(wire.piece(event))
            case _:
                pass

    def _tell(self, message: wire.Message) -> None:
        self._outbox.put(encode(message))
