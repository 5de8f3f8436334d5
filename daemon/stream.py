"""One stream of ``/v1/listen``, from accept to close.

Four tasks: one always reads and never waits for the model, one hears, one writes, one watches the clocks. Whatever ends
a stream in good order goes the same way: the buffered audio is heard, its finals, an Error where there was one, and
Metadata are written, then the close code. A client that leaves or does not read ends it at once.
"""

import asyncio
import datetime as dt
import hashlib
import logging
import time
import uuid
from typing import Final, NamedTuple

import msgspec
from starlette.types import Message, Receive, Send

from daemon import wire
from daemon.header import NotRaw, RawAudio
from daemon.hub import Hearing, Hub, Loaded
from daemon.outbox import Outbox
from daemon.query import ListenRequest
from daemon.session import Batch, Session
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd

PATH: Final = "/v1/listen"

_CLOSE_SECONDS: Final = 5.0
"""How long a close frame may wait for a client that does not read."""

log: Final = logging.getLogger("hearsay.listen")


class Ending(NamedTuple):
    """How a stream ends. ``variant`` and ``reason`` go into an Error, unless ``code`` is a good one."""

    code: int
    variant: str = ""
    reason: str = ""


_SLOW: Final = Ending(1013, reason="the client does not read (max_outbound_bytes, send_timeout_seconds)")


class Stream:
    """One connection, from accept to close."""

    def __init__(
        self, hub: Hub, loaded: Loaded, request: ListenRequest, hearing: Hearing, receive: Receive, send: Send
    ) -> None:
        self._hub, self._loaded, self._request = hub, loaded, request
        self._receive, self._send = receive, send
        self._settings, self._metrics = hub.settings, hub.metrics
        rate = loaded.model.sample_rate
        self._session = Session(
            hearing, request.decoder(rate), request.bytes_per_second, rate, self._settings.max_unheard_seconds
        )
        self._outbox = Outbox(self._settings.max_outbound_bytes)
        self._raw = RawAudio(request)
        self._sha = hashlib.sha256()
        self._id = str(uuid.uuid4())
        self._created = dt.datetime.now(dt.UTC)
        info = wire.ModelInfo(loaded.name, "1", loaded.model.manifest.architecture)
        self._metadata = wire.ResultsMetadata(self._id, info, loaded.uuid)
        self._alive_at = time.monotonic()
        self._ending: Ending | None = None
        """Set once the stream is to end in good order."""

    async def run(self, subprotocol: str | None) -> None:
        """Serve the connection until it is closed."""
        await self._receive()  # websocket.connect
        headers = [(b"dg-request-id", self._id.encode())]
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol, "headers": headers})
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        overflow = asyncio.create_task(self._outbox.overflow.wait())
        # These two never return; they end the stream only by breaking.
        hearing, watching = asyncio.create_task(self._hear()), asyncio.create_task(self._watch())
        tasks = (reading, writing, overflow, hearing, watching)
        code = 1011
        try:
            with self._metrics.watch(lambda: self._session.unheard, lambda: self._outbox.size):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            writing.cancel()  # nothing may follow the close
            if reading in done:
                code = reading.result()
            elif writing in done:
                code = await self._close(writing.result())
            elif overflow in done:
                code = await self._close(_SLOW)
            for task in (hearing, watching):
                if task in done:
                    task.result()
        except Exception:
            log.exception("stream %s", self._id)
            await self._close(Ending(1011, reason="a fault of the daemon"))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A client may close with any code above 3000: not a time series each.
            self._metrics.closes.labels(str(code) if code < 3000 else "other").inc()
            self._metrics.coalesced.inc(self._outbox.coalesced)

    # ------------------------------------------------------------------------------------------------- in

    async def _read(self) -> int:
        """Take everything the client sends; the close code it left with."""
        while True:
            try:
                message = await self._receive()
            except Exception:  # a server in front of us that breaks raises instead of telling
                log.info("stream %s: receive failed", self._id, exc_info=True)
                return 1006
            if message["type"] == "websocket.disconnect":
                return int(message.get("code") or 1005)
            if (data := message.get("bytes")) is not None:
                self._take_audio(data)
            else:
                self._take_text(message["text"])

    def _take_audio(self, data: bytes) -> None:
        if self._ending is not None:
            return
        self._alive_at = time.monotonic()
        self._sha.update(data)
        try:
            audio = self._raw.strip(data)
        except NotRaw as error:
            self._end(Ending(1008, "NotRawAudio", str(error)))
            return
        if not self._session.push(audio):
            limit = self._settings.max_unheard_seconds
            reason = f"more than {limit:g} s of audio arrived that is not heard yet (max_unheard_seconds)"
            self._end(Ending(1008, "UnheardAudio", reason))

    def _take_text(self, text: str) -> None:
        try:
            command = wire.command(text)
        except msgspec.MsgspecError as error:
            # The stream goes on, as Deepgram's does; but such text does not keep it from being idle.
            known = "known are KeepAlive, Finalize, CloseStream; audio goes in binary messages"
            self._say(wire.Error("SchemaError", f"text message not understood: {error}; {known}", text[:200]))
            return
        self._alive_at = time.monotonic()
        match command:
            case wire.Finalize():
                self._session.finalize()
            case wire.CloseStream():
                self._end(Ending(1000))
            case wire.Configure():
                code, why = "CONFIGURE_KEYTERMS_NOT_SUPPORTED", "keyterms and features are fixed when a stream opens"
                self._say(wire.ConfigureFailure(self._id, code, why))
            case wire.KeepAlive():
                pass

    def _end(self, ending: Ending) -> None:
        """Hear what is there, say it, then close. The first cause decides."""
        if self._ending is None:
            self._ending = ending
            self._session.push(self._raw.rest())
            self._session.end()

    # ------------------------------------------------------------------------------------------------ hear

    async def _hear(self) -> None:
        """Turn audio into messages until the stream's end, then leave the rest to the writer."""
        try:
            async for batch in self._session.batches():
                self._tell(batch)
        except Exception as error:
            log.exception("stream %s: hearing failed", self._id)
            self._ending = Ending(1011, "Fault", f"hearing failed: {type(error).__name__}")
        if self._ending is not None and self._ending.variant:
            self._say(wire.Error(self._ending.variant, self._ending.reason))
        self._say(self._closing_metadata())
        self._outbox.close()
        await asyncio.Event().wait()

    def _tell(self, batch: Batch) -> None:
        self._metrics.audio.labels(PATH).inc(batch.heard)
        lag = max(0.0, time.monotonic() - batch.arrived)
        for event in batch.events:
            match event:
                case Transcript(is_final=True):
                    self._metrics.finals.labels(PATH).inc()
                    self._metrics.words.labels(PATH).inc(len(event.words))
                    self._metrics.retracted.inc(event.retracted_words)
                    self._metrics.final_lag.observe(lag)
                case Transcript():
                    self._metrics.interims.labels(PATH).inc()
                    self._metrics.interim_lag.observe(lag)
                case _:
                    pass
            self._say_event(event)

    def _say_event(self, event: Event) -> None:
        match event:
            case Transcript():
                message = wire.results(event, self._metadata, punctuate=self._request.punctuate)
                self._say(message, revises=True, revisable=not event.is_final)
            case SpeechStarted() if self._request.vad_events:
                self._say(wire.SpeechStarted(wire.CHANNELS, round(event.at, 4)))
            case UtteranceEnd():
                self._say(wire.UtteranceEnd(wire.CHANNELS, round(event.last_word_end, 4)))
            case _:
                pass

    def _closing_metadata(self) -> wire.Metadata:
        warnings = list(self._request.warnings)
        if self._session.cut_bytes:
            warnings.append(f"the audio ended within a sample: {self._session.cut_bytes} bytes dropped")
        return wire.Metadata(
            transaction_key="deprecated",
            request_id=self._id,
            sha256=self._sha.hexdigest(),
            created=self._created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration=round(self._session.heard, 4),
            channels=self._request.channels,
            models=[self._loaded.uuid],
            model_info={self._loaded.uuid: self._metadata.model_info},
            warnings=warnings,
        )

    # ------------------------------------------------------------------------------------------------- out

    def _say(self, message: wire.Message, *, revises: bool = False, revisable: bool = False) -> None:
        self._outbox.put(wire.encode(message), revises=revises, revisable=revisable)

    async def _write(self) -> Ending:
        """Send what is said; how to close, once all of it is sent."""
        while (text := await self._outbox.get()) is not None:
            try:
                async with asyncio.timeout(self._settings.send_timeout_seconds):
                    await self._send({"type": "websocket.send", "text": text})
            except TimeoutError:
                return _SLOW
            except OSError:  # the client has gone; the reader is told so as well
                return Ending(1006)
        assert self._ending is not None
        return self._ending

    async def _close(self, ending: Ending) -> int:
        reason = ending.reason.encode()[:120].decode(errors="ignore")
        close: Message = {"type": "websocket.close", "code": ending.code, "reason": reason}
        if ending.code != 1006:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._send(close)
            except (TimeoutError, OSError):  # the server drops the connection once we return
                pass
        return ending.code

    # ----------------------------------------------------------------------------------------------- clocks

    async def _watch(self) -> None:
        """End the stream when it is idle or too long, or the daemon goes."""
        idle, most = self._settings.idle_seconds, self._settings.max_session_seconds
        over_at = time.monotonic() + most
        while self._ending is None:
            now = time.monotonic()
            if now >= over_at:
                self._end(Ending(1008, "SessionLength", f"the stream is longer than {most:g} s (max_session_seconds)"))
            elif now >= self._alive_at + idle:
                reason = f"NET-0001: no audio and no KeepAlive for {idle:g} s (idle_seconds)"
                self._end(Ending(1011, "Idle", reason))
            else:
                try:
                    async with asyncio.timeout(min(over_at, self._alive_at + idle) - now):
                        await self._hub.leave.wait()
                    self._end(Ending(1012, reason="the daemon is shutting down"))
                except TimeoutError:
                    pass
        await asyncio.Event().wait()
