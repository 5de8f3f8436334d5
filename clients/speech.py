"""The client of ``/v1/speak``: text in as it comes, audio out as it is made.

::

    async with AsyncSpeech("http://127.0.0.1:8750", SpeechOptions(voice="maeve")) as speech:
        await speech.speak("Hello ")        # deltas of any size
        await speech.speak("world.")
        await speech.flush()                # the text is complete: Flushed answers when its audio is all there
        async for event in speech:
            if isinstance(event, Audio):
                play(event.data)            # bytes in the chosen encoding

One task may send while another iterates; that is how a language model's words are spoken while it still writes.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

from .blocking import Blocking
from .events import Fault, ProtocolError
from .handshake import session_url
from .options import BYTES_PER_SAMPLE, query_string, sendable
from .session import AsyncSession, control

Encoding = Literal["linear16", "mulaw", "alaw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOptions:
    """What a session on ``/v1/speak`` declares. None leaves a choice to the daemon.

    Attributes:
        encoding, sample_rate: the shape of the audio that comes back, mono.
        voice: id of a voice, as ``GET /v1/audio/voices`` lists them.
        speed: 1 as the model speaks, 2 twice as fast.
        seed: the same seed, text and options give the same speech.
        pauses: multiplies the pauses between sentences, lines and paragraphs; 0 as the model speaks.
        marks: have the text and times of each piece and of its words told: ``Piece``.
    """

    model: str | None = None
    voice: str | None = None
    language: str | None = None
    instructions: str | None = None
    encoding: Encoding = "linear16"
    sample_rate: int = 24000
    speed: float | None = None
    seed: int | None = None
    pauses: float | None = None
    marks: bool = False

    @property
    def bytes_per_second(self) -> int:
        """Wire bytes of one second of audio."""
        return BYTES_PER_SAMPLE[self.encoding] * self.sample_rate

    def query(self) -> str:
        """The options as a query string.

        Raises:
            ListenError: one is a text that cannot be sent.
        """
        chosen: dict[str, object | None] = {
            "encoding": self.encoding,
            "sample_rate": self.sample_rate,
            "container": "none",
            "model": self.model,
            "voice": self.voice,
            "language": self.language,
            "instructions": self.instructions,
            "speed": self.speed,
            "seed": self.seed,
            "pauses": self.pauses,
            "marks": "true" if self.marks else None,
        }
        return query_string((name, str(value)) for name, value in chosen.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Audio:
    """Audio that follows the previous piece's without a gap, in the session's encoding."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SpeechMetadata:
    """What the daemon says about the session at its beginning. The same text with the same ``seed`` sounds the same."""

    request_id: str
    model: str
    voice: str | None
    seed: int | None
    warnings: tuple[str, ...]
    """The parameters that the daemon does not honour."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """All audio of the text sent before the ``sequence``-th flush has come."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """No audio of the text sent before the clear comes any more."""

    sequence: int


@dataclass(frozen=True, slots=True)
class SpokenWord:
    """When a word was spoken: seconds of the session's audio, and where it stood in the text sent, in characters."""

    word: str
    start: float
    end: float
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, or a part of a long one, has been spoken: its text, its place in the session's audio (seconds), and
    its place in the text that was sent (characters)."""

    text: str
    start: float
    end: float
    start_char: int
    end_char: int
    words: tuple[SpokenWord, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeechWarning:
    """Something was not taken, or may be audible; the session goes on."""

    code: str
    message: str


SpeechEvent = Audio | SpeechMetadata | Piece | Flushed | Cleared | SpeechWarning | Fault


class AsyncSpeech(AsyncSession[SpeechEvent]):
    """One session. Use it with ``async with``; iterate it for events until the daemon closes it."""

    def __init__(
        self, url: str, options: SpeechOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """Make a session with the daemon at ``url`` (``http`` or ``ws``). ``timeout``: seconds to wait for the
        handshake."""
        self.options = options or SpeechOptions()
        super().__init__(session_url(url, "/v1/speak", self.options.query()), parse, key, timeout)

    async def speak(self, text: str) -> None:
        """Say ``text`` after what was sent; words need not be complete.

        Raises:
            Lost: the daemon has closed the session (iterating says why, too).
            ListenError: it cannot be sent: a lone surrogate is no character.
        """
        await self.send_message(control("Speak", text=sendable("text", text)))

    async def flush(self) -> None:
        """Say that the text sent so far is complete; ``Flushed`` comes after its last audio."""
        await self.send_message(control("Flush"))

    async def clear(self) -> None:
        """Forget the text sent so far; ``Cleared`` comes, and after it none of its audio."""
        await self.send_message(control("Clear"))

    async def keep_alive(self) -> None:
        """Keep a session open in which nothing is said for a while."""
        await self.send_message(control("KeepAlive"))

    async def close_speech(self) -> None:
        """Say that no more text comes: the daemon speaks what is left and closes."""
        await self.send_message(control("Close"))


class Speech(Blocking[SpeechEvent]):
    """A session for code that blocks, with the verbs of :class:`AsyncSpeech`."""

    def __init__(
        self, url: str, options: SpeechOptions | None = None, *, key: str | None = None, timeout: float = 10.0
    ) -> None:
        """As :class:`AsyncSpeech`."""
        self._speech = AsyncSpeech(url, options, key=key, timeout=timeout)
        self.options = self._speech.options
        super().__init__(self._speech)

    def speak(self, text: str) -> None:
        """Say ``text`` after what was sent; words need not be complete.

        Raises:
            Lost, ListenError: as :class:`AsyncSpeech`.
        """
        self._open().call(self._speech.speak(text))

    def flush(self) -> None:
        """Say that the text sent so far is complete; ``Flushed`` comes after its last audio."""
        self._open().call(self._speech.flush())

    def clear(self) -> None:
        """Forget the text sent so far; ``Cleared`` comes, and after it none of its audio."""
        self._open().call(self._speech.clear())

    def keep_alive(self) -> None:
        """Keep a session open in which nothing is said for a while."""
        self._open().call(self._speech.keep_alive())

    def close_speech(self) -> None:
        """Say that no more text comes: the daemon speaks what is left and closes."""
        self._open().call(self._speech.close_speech())


def parse(message: str | bytes) -> SpeechEvent | None:
    """Read one message of the daemon; None for a type that this version does not know.

    Raises:
        ProtocolError: text that is not JSON, or a known type without its fields.
    """
    if isinstance(message, bytes):
        return Audio(message)
    try:
        data: Any = json.loads(message)
        match data["type"]:
            case "Metadata":
                voice, seed = data.get("voice"), data.get("seed")
                return SpeechMetadata(
                    str(data["request_id"]),
                    str(data.get("model_name", "")),
                    str(voice) if voice is not None else None,
                    int(seed) if seed is not None else None,
                    tuple(str(warning) for warning in data.get("warnings") or ()),
                )
            case "Flushed":
                return Flushed(int(data["sequence_id"]))
            case "Cleared":
                return Cleared(int(data["sequence_id"]))
            case "Piece":
                return Piece(
                    str(data["text"]),
                    float(data["start"]),
                    float(data["end"]),
                    int(data["start_char"]),
                    int(data["end_char"]),
                    tuple(
                        SpokenWord(
                            str(one["word"]),
                            float(one["start"]),
                            float(one["end"]),
                            int(one["start_char"]),
                            int(one["end_char"]),
                        )
                        for one in data.get("words") or ()
                    ),
                )
            case "Warning":
                return SpeechWarning(
                    str(data.get("code") or data.get("warn_code") or ""),
                    str(data.get("description") or data.get("warn_msg") or ""),
                )
            case "Error":
                return Fault(str(data.get("description") or data.get("message") or data.get("err_msg") or data))
            case _:
                return None
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ProtocolError(f"unreadable message from the daemon ({error!r}): {message[:200]!r}") from error
