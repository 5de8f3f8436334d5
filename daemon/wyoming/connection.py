"""One Wyoming connection: events in turn, answers in order, an end for whoever is idle or does not read.

An event is handled before the next is read, so a client that sends faster than it is served has to wait; nothing waits
here but what its session may hold. A request that cannot be served is answered with ``error``, and the connection ends:
clients like Home Assistant wait for a transcript and would wait for ever. Events nobody knows are ignored.
"""

import asyncio
import logging
import time
from contextlib import AsyncExitStack, suppress
from typing import Final

from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, Eventable
from wyoming.info import Describe
from wyoming.ping import Ping, Pong
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeStopped

from codec.voices import VoiceInfo
from daemon.duplex import Outbox, done_unless_cut
from daemon.hub import Hub
from daemon.refusal import Refused
from daemon.tcp_server import Protocol
from daemon.wyoming import wire
from daemon.wyoming.info import info
from daemon.wyoming.synthesis import Synthesis, SynthesizeRequest, Text
from daemon.wyoming.transcription import AudioFormat, TranscribeRequest, Transcription
from daemon.wyoming.wire import Malformed, fields

_CLOSE_SECONDS: Final = 5.0
"""Seconds for the client to read what was said last."""

log: Final = logging.getLogger("hearsay.wyoming")


def wyoming_protocol(hub: Hub) -> Protocol:
    """Wyoming, for a server."""
    most = hub.settings.beside_connections

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        await Connection(hub, reader, writer, gone).run()

    full = wire.encoded(Error(f"all {most} connections are taken", "connections").event())
    return Protocol("Wyoming", serve, most, full, wire.LINE_BYTES)


class _Over(Exception):
    """The connection ends. Its arguments are what the client is told, and a code for that."""


class Connection:
    """One client's connection. ``gone`` is set when the client has hung up."""

    def __init__(
        self, hub: Hub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event
    ) -> None:
        self._hub, self._settings = hub, hub.settings
        self._reader, self._writer, self._gone = reader, writer, gone
        self._outbox = Outbox(self._settings.max_outbound_bytes)
        self._request = TranscribeRequest()
        self._hearing: Transcription | None = None
        self._speaking: Synthesis | None = None
        self._streaming = False
        """Whether text comes in chunks. A ``synthesize`` then repeats it, for servers that cannot take chunks."""
        self._told = False
        """Everything that the client was told is sent, and the daemon stays: it is worth while to let it read that."""

    async def run(self) -> None:
        """Serve the client until the connection ends."""
        serving = asyncio.create_task(self._serve_until_leaving())
        writing = asyncio.create_task(self._write())
        going = asyncio.create_task(self._gone.wait())
        overflow = asyncio.create_task(self._outbox.overflow.wait())
        tasks = (serving, writing, going, overflow)
        # The stack takes every step of the end, last one first, also where this task is cancelled within one of them.
        async with AsyncExitStack() as ending:
            ending.callback(self._hang_up)
            ending.push_async_callback(self._linger)
            ending.push_async_callback(self._close_sessions)
            ending.push_async_callback(asyncio.gather, *tasks, return_exceptions=True)
            for task in tasks:
                ending.callback(task.cancel)
            with self._hub.metrics.watch(self._unheard, lambda: self._outbox.size):
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if serving in done and going not in done:  # What was said last is still to be sent.
                    self._outbox.close()
                    done, _ = await asyncio.wait((writing, going, overflow), return_when=asyncio.FIRST_COMPLETED)
                    self._told = writing in done and not self._hub.leave.is_set()

    async def _close_sessions(self) -> None:
        async with AsyncExitStack() as ending:
            for session in (self._hearing, self._speaking):
                if session is not None:
                    ending.push_async_callback(session.close)

    def _hang_up(self) -> None:
        self._writer.close()
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, self._writer.transport.abort)

    async def _linger(self) -> None:
        """Read on for a while and drop it: a client that still writes when the connection closes is reset, and never
        reads what it was told."""
        if not self._told:
            return
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            async with asyncio.timeout(_CLOSE_SECONDS):
                while await self._reader.read(wire.LINE_BYTES):
                    pass

    def _unheard(self) -> float:
        return self._hearing.unheard if self._hearing is not None else 0.0

    async def _serve_until_leaving(self) -> None:
        """Serve the client. It ends with an error that the client is told, if there is one."""
        try:
            if not await done_unless_cut(self._hub, self._serve()):
                lost = self._unfinished()
                log.error("wyoming: cut, lost: %s", lost)
                raise _Over(f"the daemon is shutting down; lost: {lost}", "draining")
            if self._hub.leave.is_set():
                raise _Over("the daemon is shutting down", "draining")
        except _Over as over:
            self._say(Error(*over.args))
        except Malformed as error:
            self._deny("malformed")
            self._say(Error(str(error), "malformed"))
        except Refused as refused:
            self._deny(refused.code)
            self._say(Error(refused.message, refused.code))
        except Exception as error:
            log.exception("wyoming: the work failed")
            self._say(Error(f"the work failed: {type(error).__name__}", "fault"))

    def _unfinished(self) -> str:
        """What has arrived and is not worked off, in words for people."""
        if self._hearing is not None:
            return f"{self._hearing.unheard:.1f} of {self._hearing.arrived:.1f} s of audio"
        return "text that is not spoken"

    # ------------------------------------------------------------------------------------------------- in

    async def _serve(self) -> None:
        """Handle events until the client leaves, or until the drain deadline, when what arrived is worked off."""
        while (event := await self._next()) is not None:
            await self._handle(event)
        if self._hub.leave.is_set():
            if self._hearing is not None and self._hearing.arrived:
                await self._hearing.finish()
            if self._speaking is not None:
                await self._speaking.finish()

    async def _next(self) -> Event | None:
        """The next event; None where the client or the daemon leaves.

        Raises:
            _Over: it is, or the session is too long.
        """
        reading = asyncio.create_task(wire.read(self._reader, self._settings.max_frame_bytes))
        leaving = asyncio.create_task(self._hub.leave.wait())
        idle = self._settings.idle_seconds
        since = time.monotonic()
        try:
            while not reading.done() and not leaving.done():
                busy = self._speaking.busy_until if self._speaking is not None else 0.0
                left = max(since, busy) + idle - time.monotonic()
                if left <= 0:
                    raise _Over(f"nothing came for {idle:g} s (idle_seconds)", "idle")
                await asyncio.wait((reading, leaving), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return None if leaving.done() else reading.result()
        finally:
            reading.cancel()
            leaving.cancel()
            await asyncio.gather(reading, leaving, return_exceptions=True)

    async def _handle(self, event: Event) -> None:
        kind = event.type
        if Ping.is_type(kind):
            self._say(Pong(Ping.from_event(event).text))
        elif Describe.is_type(kind):
            self._outbox.put(wire.encoded(await self._info()))
        elif Transcribe.is_type(kind):
            self._request = fields(event, TranscribeRequest)
        elif AudioStart.is_type(kind):
            await self._listen(fields(event, AudioFormat))
        elif AudioChunk.is_type(kind):
            await self._hear(fields(event, AudioFormat), event.payload or b"")
        elif AudioStop.is_type(kind):
            await self._stop_hearing()
        elif SynthesizeStart.is_type(kind):
            await self._speak(fields(event, SynthesizeRequest))
            self._streaming = True
        elif SynthesizeChunk.is_type(kind):
            if self._speaking is not None:
                self._speaking.push(fields(event, Text).text)
        elif SynthesizeStop.is_type(kind):
            await self._stop_speaking()
        elif Synthesize.is_type(kind) and not self._streaming:
            await self._say_whole(fields(event, SynthesizeRequest))

    async def _info(self) -> Event:
        models = self._hub.loaded()
        voices: list[VoiceInfo] = []
        if models.speaking is not None:
            voices = await self._hub.run(models.speaking.model.voices.listed)
        return info(models, voices)

    # ------------------------------------------------------------------------------------------------ hear

    async def _listen(self, given: AudioFormat) -> None:
        if self._hearing is not None:
            raise _Over("audio-start: the audio before has no audio-stop yet", "order")
        self._hearing = Transcription(self._hub, self._request, self._say)
        await self._hearing.open(given)

    async def _hear(self, given: AudioFormat, audio: bytes) -> None:
        if self._hearing is None:  # Not every client says audio-start.
            await self._listen(given)
        assert self._hearing is not None
        if given != self._hearing.format:
            raise _Over("audio-chunk: its rate, width or channels are not those of the audio before", "format")
        seconds = self._settings.max_session_seconds
        if self._hearing.arrived > seconds:
            raise _Over(f"the audio is longer than {seconds:g} s (max_session_seconds)", "session_length")
        await self._hearing.push(audio)

    async def _stop_hearing(self) -> None:
        if self._hearing is not None:
            await self._hearing.finish()
            await self._outbox.emptied()
            await self._hearing.close()
        self._hearing, self._request = None, TranscribeRequest()

    # ----------------------------------------------------------------------------------------------- speak

    async def _speak(self, request: SynthesizeRequest) -> None:
        if self._speaking is not None:
            raise _Over("synthesize-start: the text before has no synthesize-stop yet", "order")
        self._speaking = Synthesis(self._hub, self._say, self._sound)
        await self._speaking.open(request)

    async def _say_whole(self, request: SynthesizeRequest) -> None:
        most = self._settings.max_text_characters
        if len(request.text) > most:
            message = f"text: {len(request.text)} characters, the limit is {most} (max_text_characters)"
            raise Refused(400, "text_limit", f"{message}; synthesize-chunk takes text without an end", param="text")
        await self._speak(request)
        assert self._speaking is not None
        self._speaking.push(request.text)
        await self._spoken()

    async def _stop_speaking(self) -> None:
        if self._speaking is not None:
            await self._spoken(SynthesizeStopped())
        self._streaming = False

    async def _spoken(self, *last: Eventable) -> None:
        """Speak to the end, and send the events ``last`` behind it. A drain waits until they are sent."""
        assert self._speaking is not None
        await self._speaking.finish()
        for event in last:
            self._say(event)
        await self._outbox.emptied()
        await self._speaking.close()
        self._speaking = None

    # ------------------------------------------------------------------------------------------------- out

    def _deny(self, code: str) -> None:
        self._hub.metrics.denials.labels(code).inc()

    def _say(self, event: Eventable) -> None:
        self._outbox.put(wire.encoded(event.event()))

    async def _sound(self, event: Eventable) -> None:
        data = wire.encoded(event.event())
        await self._outbox.room(len(data))
        self._outbox.put_sound(data)

    async def _write(self) -> None:
        """Send what is said, to the end. Returns early for a client that does not read or has gone."""
        while (message := await self._outbox.get()) is not None:
            self._writer.write(message.encode() if isinstance(message, str) else message)
            try:
                async with self._hub.in_time():
                    await self._writer.drain()
            except TimeoutError:
                log.info("wyoming: the client does not read (send_timeout_seconds)")
                self._writer.transport.abort()
                return
            except OSError:
                return
