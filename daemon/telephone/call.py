"""A telephone call: a session of ``/v1/realtime`` whose client is a telephone exchange, which sends only sound."""

import time
from typing import Any, Literal

from starlette.types import Receive, Send

from daemon.hub import Hub
from daemon.openai.realtime.config import Config
from daemon.openai.realtime.session import RealtimeStream


class Call(RealtimeStream):
    """One call. ``format`` is the audio format in both directions, as a session's object has it."""

    def __init__(
        self, hub: Hub, kind: Literal["realtime", "transcription"], format: dict[str, Any], receive: Receive, send: Send
    ) -> None:
        seconds = hub.settings.max_session_seconds
        sides: dict[str, Any] = {"input": {"format": format, "transcription": {}}}
        if kind == "realtime":
            sides["output"] = {"format": format}
        config = Config.initial(kind, seconds=seconds).updated({"type": kind, "audio": sides}, seconds=seconds)
        super().__init__(hub, config, receive, send)

    def _take_bytes(self, data: bytes) -> None:
        self._alive_at = time.monotonic()
        if self._ending is None:
            self._append(data)
