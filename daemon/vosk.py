"""vosk-server's WebSocket at ``/vosk``, as Jigasi and Asterisk speak it.

Each message of audio gets an answer: the finals that were made since the last answer, or else the words so far. The
last answer, after ``{"eof": 1}``, has all finals that are left. Messages follow vosk-server's
``websocket/asr_server.py``.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec
from starlette.types import Message, Receive, Scope, Send

from audio.pcm import Shape
from daemon.duplex import Ending, echoed
from daemon.heard_stream import HeardStream, open_streams
from daemon.hearing import HearingStream
from daemon.hub import Hub
from daemon.messages import decoded
from daemon.paths import VOSK
from daemon.refusal import Refused
from streaming.events import Event, Transcript
from streaming.options import ListenOptions

_NAMES: Final = {"keyterms": "phrase_list"}
_RATE: Final = 16_000
"""The sample rate in Hz if the client does not tell it."""


class Config(msgspec.Struct):
    """A client's configuration of its stream. Other fields of vosk-server's have no effect here."""

    sample_rate: float = _RATE
    phrase_list: list[str] = msgspec.field(default_factory=list[str])
    words: bool | Literal[0, 1] = True


class Command(msgspec.Struct):
    """A message from the client: a configuration, or the end of the audio."""

    config: Config | None = None
    eof: bool | int = 0


_commands: Final = msgspec.json.Decoder(Command)


async def vosk(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the stream, which its first message may configure."""
    if scope["type"] != "websocket":
        raise Refused(426, "upgrade", f"{VOSK.path} is a WebSocket")
    hub.hearing_model()
    await VoskStream(hub, (), receive, send).run(echoed(scope))


class VoskStream(HeardStream):
    """One connection, from its first audio to the close."""

    _commands: ClassVar[Any] = _commands
    _faults, _full = ("NotRawAudio", "NotDecodable"), "UnheardAudio"

    _opens_late = True

    def __init__(self, hub: Hub, streams: Sequence[HearingStream], receive: Receive, send: Send) -> None:
        super().__init__(hub, streams, receive, send)
        self._words = True
        self._finals: list[Transcript] = []
        """The finals that no answer has had yet."""
        self._partial = ""
        """The words so far of the open utterance."""

    async def _open(self, message: Message) -> bool:
        text = message.get("text")
        config = Config() if text is None else (decoded(text, _commands).config or Config())
        options = ListenOptions(keyterms=tuple(config.phrase_list))
        shape = Shape("linear16", round(config.sample_rate), 1)
        self._words = bool(config.words)
        self._streams = await self._held.enter_async_context(open_streams(self._hub, VOSK, options, _NAMES, shape))
        return True

    def _take_bytes(self, data: bytes) -> None:
        super()._take_bytes(data)
        self._answer(last=False)

    def _answer(self, *, last: bool) -> None:
        """Send the answer that the client waits for; the ``last`` one is a result even without a final."""
        if not self._finals and not last:
            self._put({"partial": self._partial})
            return
        told: dict[str, Any] = {"text": " ".join(final.text for final in self._finals)}
        words = [word for final in self._finals for word in final.words]
        if self._words and words:
            told["result"] = [
                {"conf": word.confidence, "start": word.start, "end": word.end, "word": word.text} for word in words
            ]
        self._finals = []
        self._put(told)

    def _put(self, message: dict[str, Any]) -> None:
        self._outbox.put(msgspec.json.encode(message))

    def _hear(self, channel: int, event: Event) -> None:
        del channel
        if isinstance(event, Transcript):
            if event.is_final:
                self._partial = ""
                if event.text:
                    self._finals.append(event)
            else:
                self._partial = event.text

    async def _follow(self, command: Command) -> None:
        if command.eof:
            self._end(Ending(1000))

    def _misunderstood(self, reason: str, text: str) -> None:
        del text
        self._put({"error": reason})

    def _say_error(self, ending: Ending) -> None:
        self._put({"error": ending.reason})

    def _last_words(self) -> None:
        if self._is_open:
            self._answer(last=True)
