"""``/v1/listen``: a WebSocket in Deepgram's shape, the public protocol with revisable interim text.

In good order: the buffered audio is heard, its finals, an Error where there was one, and Metadata are written, then the
close code (``daemon.duplex``).
"""

import datetime as dt
import hashlib
import time
from contextlib import aclosing

import msgspec
from starlette.types import Receive, Scope, Send

from audio.wav_header import NotRaw
from audio.wire import Decoder
from daemon.answer import answering
from daemon.deepgram import listen_messages as wire
from daemon.deepgram.listen_query import NAMES, ListenRequest, parse
from daemon.deepgram.recorded import answer_recording
from daemon.duplex import Duplex, Ending, echoed
from daemon.hearing import MOST_FINALIZES, HearingStream, Said
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.messages import Error
from daemon.paths import LISTEN
from daemon.refusal import Refused
from daemon.workers import SessionWorker
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd
from streaming.listener import Listener
from streaming.model import AsrModel


class Listen:
    """The ASGI endpoint."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, open a listener, run the stream."""
        hub = self._hub
        async with answering(hub, scope, send):
            if scope["type"] != "websocket":
                if scope["method"] == "POST":
                    await answer_recording(hub, scope, receive, send)
                    return
                raise Refused(426, "upgrade", f"GET {LISTEN.path} is a WebSocket; POST a recording to it")
            loaded = hub.hearing_model()
            request = parse(scope["query_string"], loaded.name)
            worker = await hub.hear(request.options, NAMES)
            decoder = request.decoder(loaded.model.sample_rate, hub.settings.max_session_seconds)
            try:
                await ListenStream(hub, loaded, request, worker, decoder, receive, send).run(echoed(scope))
            finally:
                await worker.close()
                await hub.run(decoder.close)


class ListenStream(Duplex):
    """One connection, from accept to close."""

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[AsrModel],
        request: ListenRequest,
        worker: SessionWorker[Listener],
        decoder: Decoder,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, receive, send)
        self._loaded, self._request, self._decoder = loaded, request, decoder
        self._stream = HearingStream(worker, hub.feeding, decoder, self._settings.max_unheard_seconds)
        self._counted = 0.0
        """Seconds of audio that the metrics have."""
        self._final = 0.0
        """Where the last final ends, in seconds."""
        self._late = 0
        """Bytes of audio that came when the daemon took no more."""
        self._sha = hashlib.sha256()
        self._created = dt.datetime.now(dt.UTC)
        info = wire.ModelInfo(loaded.name, "1", loaded.model.manifest.architecture)
        self._metadata = wire.ResultsMetadata(self._id, info, loaded.uuid)

    @property
    def _waiting(self) -> float:
        return self._stream.unheard

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        if self._ending is not None:
            self._late += len(data) if self._ending.code == 1012 else 0
            return
        self._alive_at = time.monotonic()
        self._sha.update(data)
        if not self._stream.push(data):
            self._end(Ending(1008, "UnheardAudio", self._stream.full))

    def _take_text(self, text: str) -> None:
        try:
            command = wire.command(text)
        except msgspec.MsgspecError as error:
            # The stream goes on, as Deepgram's does; but such text does not keep it from being idle.
            known = "known are KeepAlive, Finalize, CloseStream; audio goes in binary messages"
            self._say(Error("SchemaError", f"text message not understood: {error}; {known}", text[:200]))
            return
        self._alive_at = time.monotonic()
        match command:
            case wire.Finalize():
                if not self._stream.finalize():
                    reason = f"{MOST_FINALIZES} Finalize messages wait for their answer, which is the limit"
                    self._say(Error("FinalizeLimit", f"{reason}; this message was not taken"))
            case wire.CloseStream():
                self._end(Ending(1000))
            case wire.Configure():
                code, why = "CONFIGURE_KEYTERMS_NOT_SUPPORTED", "keyterms and features are fixed when a stream opens"
                self._say(wire.ConfigureFailure(self._id, code, why))
            case wire.KeepAlive():
                pass

    def _unfinished(self) -> str:
        return f"what was said from {self._final:.2f} s to {self._stream.arrived:.2f} s of the audio"

    def _wind_up(self, ending: Ending) -> None:
        """Hear what is there."""
        del ending
        self._stream.end()

    # ------------------------------------------------------------------------------------------------ hear

    async def _work(self) -> None:
        """Turn audio into messages until the stream's end."""
        async with aclosing(self._stream.batches()) as batches:
            async for batch in batches:
                self._count(batch)
                for said in batch:
                    self._say_event(said.event)
        self._count([])
        if (fault := self._stream.fault) is not None:
            variant = "NotRawAudio" if isinstance(fault, NotRaw) else "NotDecodable"
            self._ending = Ending(1008, variant, str(fault))

    def _last_words(self) -> None:
        self._say(self._closing_metadata())

    def _count(self, batch: list[Said]) -> None:
        heard = self._stream.heard
        self._metrics.audio.labels(LISTEN.path).inc(max(0.0, heard - self._counted))
        self._counted = max(heard, self._counted)
        now = time.monotonic()
        for said in batch:
            if isinstance(said.event, Transcript):
                self._metrics.count(LISTEN.path, said.event, now - said.arrived)

    def _say_event(self, event: Event) -> None:
        match event:
            case Transcript():
                self._final = event.end if event.is_final else self._final
                message = wire.results(event, self._metadata, punctuate=self._request.punctuate)
                self._say(message, revises=True, revisable=not event.is_final)
            case SpeechStarted() if self._request.vad_events:
                self._say(wire.SpeechStarted(wire.CHANNELS, round(event.at, 4)))
            case UtteranceEnd():
                self._say(wire.UtteranceEnd(wire.CHANNELS, round(event.last_word_end, 4)))
            case _:
                pass

    def _closing_metadata(self) -> wire.Metadata:
        warnings = [*self._request.warnings, *self._decoder.warnings()]
        if self._late:
            warnings.append(f"the daemon is shutting down: the last {self._late} bytes of audio are not heard")
        return wire.Metadata(
            transaction_key="deprecated",
            request_id=self._id,
            sha256=self._sha.hexdigest(),
            created=self._created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration=round(self._stream.heard, 4),
            channels=self._request.shape.channels if self._request.shape else 1,
            models=[self._loaded.uuid],
            model_info={self._loaded.uuid: self._metadata.model_info},
            warnings=warnings,
        )
