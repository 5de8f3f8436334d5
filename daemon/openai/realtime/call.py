"""A call: a session of ``/v1/realtime`` whose transport carries sound as it is, in a format of its own."""

import time
from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace
from starlette.types import Receive, Send

from daemon.hub import Hub
from daemon.openai.realtime import beta
from daemon.openai.realtime.config import Config, Document, merged
from daemon.openai.realtime.session import RealtimeStream
from daemon.openai.realtime.spec import Spec


class Call(RealtimeStream):
    """One call. ``heard`` and ``spoken`` are the audio formats of the two directions, as a session's object has them;
    what its client asks for changes neither."""

    def __init__(
        self, hub: Hub, config: Config, heard: Document, spoken: Document, receive: Receive, send: Send
    ) -> None:
        self._formats = {"input": {"format": heard}, "output": {"format": spoken}}
        patch, seconds = self._carried({}, config.spec.type), hub.settings.max_session_seconds
        super().__init__(hub, config.updated(patch, seconds=seconds), receive, send)

    def _carried(self, patch: Document, kind: str) -> Document:
        """An update, with the formats that the transport carries. A session of transcription has no output."""
        sides = {side: self._formats[side] for side in ("input", "output")[: 2 if kind == "realtime" else 1]}
        return merged(beta.released(patch), {"audio": sides})

    async def _update(self, patch: dict[str, Any], *, is_beta: bool | None) -> None:
        await super()._update(self._carried(patch, patch.get("type", self._config.spec.type)), is_beta=is_beta)

    def _answer_spec(self, patch: Mapping[str, Any]) -> Spec:
        spec, carried = super()._answer_spec(patch), self._config.spec.audio.output
        if spec.audio.output is None or carried is None:
            return spec
        return replace(spec, audio=replace(spec.audio, output=replace(spec.audio.output, format=carried.format)))

    def _take_bytes(self, data: bytes) -> None:
        self._alive_at = time.monotonic()
        if self._ending is None:
            self._append(data)


def telephone(hub: Hub, kind: Literal["realtime", "transcription"]) -> Config:
    """The session of somebody who telephones: what they say is written down as well."""
    seconds = hub.settings.max_session_seconds
    heard: Document = {"type": kind, "audio": {"input": {"transcription": {}}}}
    return Config.initial(kind, seconds=seconds).updated(heard, seconds=seconds)
