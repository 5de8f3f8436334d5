"""One stream of ``/v1/listen``, from accept to close.

In good order: the buffered audio is heard, its finals, an Error where there was one, and Metadata are written, then the
close code (``daemon.duplex``).
"""

import datetime as dt
import hashlib
import time
from typing import Final

import msgspec
from starlette.types import Receive, Send

from daemon import wire
from daemon.calls import Hearing
from daemon.duplex import Duplex, Ending
from daemon.header import NotRaw, RawAudio
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.query import ListenRequest
from daemon.session import MOST_FINALIZES, Batch, Session
from streaming.events import Event, SpeechStarted, Transcript, UtteranceEnd
from streaming.model import AsrModel

PATH: Final = "/v1/listen"


class Stream(Duplex):
    """One connection, from accept to close."""

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[AsrModel],
        request: ListenRequest,
        hearing: Hearing,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, receive, send)
        self._loaded, self._request = loaded, request
        rate = loaded.model.sample_rate
        self._session = Session(
            hearing, request.decoder(rate), request.bytes_per_second, rate, self._settings.max_unheard_seconds
        )
        self._raw = RawAudio(request)
        self._sha = hashlib.sha256()
        self._created = dt.datetime.now(dt.UTC)
        info = wire.ModelInfo(loaded.name, "1", loaded.model.manifest.architecture)
        self._metadata = wire.ResultsMetadata(self._id, info, loaded.uuid)

    @property
    def _waiting(self) -> float:
        return self._session.unheard

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
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
                if not self._session.finalize():
                    reason = f"{MOST_FINALIZES} Finalize messages wait for their answer, which is the limit"
                    self._say(wire.Error("FinalizeLimit", f"{reason}; this message was not taken"))
            case wire.CloseStream():
                self._end(Ending(1000))
            case wire.Configure():
                code, why = "CONFIGURE_KEYTERMS_NOT_SUPPORTED", "keyterms and features are fixed when a stream opens"
                self._say(wire.ConfigureFailure(self._id, code, why))
            case wire.KeepAlive():
                pass

    def _wind_up(self, ending: Ending) -> None:
        """Hear what is there."""
        del ending
        self._session.push(self._raw.rest())
        self._session.end()

    # ------------------------------------------------------------------------------------------------ hear

    async def _work(self) -> None:
        """Turn audio into messages until the stream's end."""
        async for batch in self._session.batches():
            self._tell(batch)

    def _last_words(self) -> None:
        self._say(self._closing_metadata())

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
        if self._raw.beyond:
            warnings.append(f"the WAV header tells where its audio ends: {self._raw.beyond} bytes after it not heard")
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
