"""``POST /v1/listen``: a recording becomes Deepgram's pre-recorded answer.

It is heard like an upload of OpenAI's, block after block as backlog; with ``multichannel`` one channel after
the other, in the one slot that the request holds. A client that leaves ends it.
"""

import datetime as dt
import hashlib
import uuid
from collections.abc import Generator
from contextlib import aclosing
from functools import partial
from typing import Any, BinaryIO, Final

import msgspec
from starlette.datastructures import Headers, UploadFile
from starlette.types import Receive, Scope, Send

from audio.container import MAGIC_BYTES, recognised
from audio.pcm import MAX_CHANNELS, Samples, Shape
from audio.recording import RecordingError, open_recording, raw_samples, samples
from audio.sound import Notes, Wanted
from daemon import body
from daemon.answer import in_time, json, unless_gone
from daemon.deepgram.listen_messages import ModelInfo
from daemon.deepgram.listen_query import NAMES
from daemon.deepgram.recorded_answer import Answer, Metadata, results
from daemon.deepgram.recorded_query import RecordedRequest, parse
from daemon.fetch import fetched
from daemon.heard_file import heard
from daemon.hub import Hub
from daemon.parameters import warning_header, wrong
from daemon.paths import LISTEN
from daemon.refusal import Refused
from streaming.events import Transcript

_HASHED_BYTES: Final = 1 << 20
"""Bytes of the file that are read at once, so that hashing a large file takes little memory."""


class _Url(msgspec.Struct):
    """A body of JSON, which names a recording."""

    url: str


_urls: Final = msgspec.json.Decoder(_Url)


async def answer_recording(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request, hear the recording, and answer.

    Raises:
        Refused, ClientDisconnect: see ``daemon.answer``.
    """
    loaded = hub.hearing_model()
    request = parse(scope["query_string"], loaded.name, strict=hub.settings.strict)
    file = await _received(hub, scope, receive)
    try:
        if not file.size:
            raise Refused(400, "empty", "the body is empty: it must be a recording, or JSON with a url")
        await unless_gone(receive, _Recording(hub, request, file.file, scope, receive, send).answer())
    except RecordingError as error:
        if error.field == "track":
            raise wrong("track", f"track: {error}") from None
        raise Refused(400, "invalid_file", f"corrupt or unsupported data: {error}") from None
    finally:
        await file.close()


async def _received(hub: Hub, scope: Scope, receive: Receive) -> UploadFile:
    if Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return await body.stored(scope, receive, hub.settings)
    data = await body.whole(scope, receive, hub.settings, 1 << 16, "a body of JSON")
    return await fetched(body.decoded(data, _urls).url, hub.settings)


class _Recording:
    """One recording that is heard."""

    def __init__(
        self, hub: Hub, request: RecordedRequest, file: BinaryIO, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._hub, self._request, self._file = hub, request, file
        self._scope, self._receive, self._send = scope, receive, send
        self._created = dt.datetime.now(dt.UTC)
        self._warnings = list(request.warnings)
        self._notes = Notes()
        self._duration = 0.0

    async def answer(self) -> None:
        """Hear every channel, and send what was said."""
        hub, request_id = self._hub, str(uuid.uuid4())
        sha, shape, channels = await hub.run(self._look)
        finals = [await self._heard(shape, channel) for channel in (range(channels) if channels else (None,))]
        loaded = hub.hearing_model()
        info = ModelInfo(loaded.name, "1", loaded.model.manifest.architecture)
        metadata = Metadata(
            transaction_key="deprecated",
            request_id=request_id,
            sha256=sha,
            created=self._created.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            duration=round(self._duration, 4),
            channels=len(finals),
            models=[loaded.uuid],
            model_info={loaded.uuid: info},
            warnings=[*self._warnings, *self._notes.warnings()] or None,
        )
        response = json(Answer(metadata, results(finals, self._request)))
        response.headers["dg-request-id"] = request_id
        response.raw_headers += warning_header(self._warnings)
        async with in_time(hub):
            await response(self._scope, self._receive, self._send)

    def _look(self) -> tuple[str, Shape | None, int]:
        """Look at the file, in a worker thread: its sha256, its shape if it is raw, and the number of channels that are
        heard alone, 0 for none.

        Raises:
            RecordingError: it cannot be heard.
        """
        sha = hashlib.sha256()
        self._file.seek(0)
        first = self._file.read(MAGIC_BYTES)
        sha.update(first)
        while block := self._file.read(_HASHED_BYTES):
            sha.update(block)
        shape, name = self._request.shape, recognised(first, sure=True)
        if shape is not None and name is not None:
            self._warnings.append(f"encoding: the recording is {name}, which tells its own")
            shape = None
        if not self._request.multichannel:
            return sha.hexdigest(), shape, 0
        channels = shape.channels if shape is not None else open_recording(self._file).channels
        return sha.hexdigest(), shape, min(channels, MAX_CHANNELS)

    async def _heard(self, shape: Shape | None, channel: int | None) -> list[Transcript]:
        """The finals of one channel, or of all of them mixed."""
        hub = self._hub
        worker = await hub.hear(self._request.options, NAMES, live=False)
        finals: list[Transcript] = []
        seconds = 0.0
        async with aclosing(heard(hub, worker, self._blocks(shape, channel), LISTEN)) as blocks:
            async for events, size in blocks:
                seconds += size
                finals += [one for one in events if isinstance(one, Transcript) and one.is_final]
        self._duration = seconds
        return await hub.run(partial(worker.session.settled, finals))

    def _blocks(self, shape: Shape | None, channel: int | None) -> Generator[Samples]:
        model, most = self._hub.hearing_model().model, self._hub.settings.max_session_seconds
        source: Any = self._file
        if shape is None:
            self._notes = Notes()  # The notes of one channel do for all of them.
            wanted = Wanted(model.sample_rate, channel, self._request.track, model.speaks)
            return samples(source, wanted, most, self._notes)
        return raw_samples(source, shape, model.sample_rate, most, channel)
