"""``/v1/listen``: a WebSocket in Deepgram's shape, the public protocol with revisable interim text."""

import datetime as dt
import hashlib
from collections.abc import Sequence
from dataclasses import replace

from starlette.types import Receive, Scope, Send

from daemon.deepgram import listen_messages as wire
from daemon.deepgram.listen_query import NAMES, ListenRequest, parse
from daemon.deepgram.recorded import answer_recording
from daemon.duplex import Ending, echoed
from daemon.heard_stream import HeardStream, open_streams
from daemon.hearing import MOST_FINALIZES, HearingStream
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.messages import Error
from daemon.paths import LISTEN
from daemon.refusal import Refused
from streaming.events import Event, SpeakerMerged, SpeakerNamed, SpeechStarted, Transcript, UtteranceEnd
from streaming.model import AsrModel


async def listen(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Check the request, open a listener, and run the stream."""
    if scope["type"] != "websocket":
        if scope["method"] == "POST":
            await answer_recording(hub, scope, receive, send)
            return
        raise Refused(426, "upgrade", f"GET {LISTEN.path} is a WebSocket; POST a recording to it")
    loaded = hub.hearing_model()
    request = parse(scope["query_string"], loaded.name, strict=hub.settings.strict)
    channels = request.shape.channels if request.shape is not None and request.multichannel else None
    async with open_streams(hub, LISTEN, request.options, NAMES, request.shape, channels, request.track) as streams:
        await ListenStream(hub, loaded, request, streams, receive, send).run(echoed(scope))


class ListenStream(HeardStream):
    """One connection, from accept to close."""

    _commands = wire.commands
    _faults, _full = ("NotRawAudio", "NotDecodable"), "UnheardAudio"

    def __init__(
        self,
        hub: Hub,
        loaded: Loaded[AsrModel],
        request: ListenRequest,
        streams: Sequence[HearingStream],
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(hub, streams, receive, send)
        self._loaded, self._request = loaded, request
        self._finals = [0.0] * len(streams)
        """The end of each channel's last final, in seconds."""
        self._late = 0
        """Bytes of audio that came when the daemon took no more."""
        self._sha = hashlib.sha256()
        self._created = dt.datetime.now(dt.UTC)
        info = wire.ModelInfo(loaded.name, "1", loaded.model.manifest.architecture)
        self._metadata = wire.ResultsMetadata(self._id, info, loaded.uuid)

    # ------------------------------------------------------------------------------------------------- in

    def _take_bytes(self, data: bytes) -> None:
        if self._ending is None:
            self._sha.update(data)
        elif self._ending.code == 1012:
            self._late += len(data)
        super()._take_bytes(data)

    def _misunderstood(self, reason: str, text: str) -> None:
        self._say(Error("SchemaError", f"{reason}; audio goes in binary messages", text[:200]))

    async def _follow(self, command: wire.Command) -> None:
        match command:
            case wire.Finalize():
                if not self._finalize():
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
        return f"what was said from {min(self._finals):.2f} s to {self._streams[0].arrived:.2f} s of the audio"

    # ------------------------------------------------------------------------------------------------- out

    def _last_words(self) -> None:
        self._say(self._closing_metadata())

    def _hear(self, channel: int, event: Event) -> None:
        place = channel, len(self._streams)
        match event:
            case Transcript():
                if event.is_final:
                    self._finals[channel] = event.end
                    drained = self._ending is not None and self._ending.code == 1012
                    if drained and event.words and not event.silence:
                        # The daemon cut it, perhaps inside a word, and the speaker may well have gone on.
                        event = replace(event, speech_final=event.from_finalize)
                message = wire.results(event, self._metadata, place, punctuate=self._request.punctuate)
                # An interim gives way to what follows it in its own channel.
                self._say(message, revises=len(self._streams) == 1, revisable=not event.is_final)
            case SpeechStarted() if self._request.vad_events:
                self._say(wire.SpeechStarted(place, round(event.at, 4)))
            case UtteranceEnd():
                self._say(wire.UtteranceEnd(place, round(event.last_word_end, 4)))
            case SpeakerMerged() if self._request.speaker_merged:
                self._say(wire.SpeakerMerged(place, event.speaker, event.into))
            case SpeakerNamed() if self._request.speaker_merged:
                self._say(wire.SpeakerNamed(place, event.speaker, event.name))
            case _:
                pass

    def _closing_metadata(self) -> wire.Metadata:
        warnings = [*self._request.warnings, *self._streams[0].decoder.warnings()]
        if self._late:
            warnings.append(f"the daemon is shutting down: the last {self._late} bytes of audio are not heard")
        return wire.Metadata(
            transaction_key="deprecated",
            request_id=self._id,
            sha256=self._sha.hexdigest(),
            created=self._created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration=round(max(stream.heard for stream in self._streams), 4),
            channels=self._request.shape.channels if self._request.shape else 1,
            models=[self._loaded.uuid],
            model_info={self._loaded.uuid: self._metadata.model_info},
            warnings=warnings,
        )
