"""Where speech comes from: a model in this process (:class:`Local`) or a daemon (:class:`Remote`), in one shape.

Both are told text by one task and iterated for sound by another. Sound is 16-bit little-endian mono PCM at
``sample_rate``.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from commands.console import Failure

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_AHEAD = 8_000
"""Characters that are told and not yet spoken; whoever tells more waits."""

KEEP_ALIVE_SECONDS = 20.0


RATE = 24_000
"""Hz asked of a daemon where no other rate is wished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to speak; None leaves a choice to the model. ``sample_rate`` in Hz."""

    voice: str | None = None
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    seed: int | None = None
    sample_rate: int | None = None


@dataclass(frozen=True, slots=True)
class Sound:
    """Samples that follow those before without a gap."""

    pcm: bytes


@dataclass(frozen=True, slots=True)
class Remark:
    """What the speaker has to say about its speech."""

    text: str


@dataclass(frozen=True, slots=True)
class Awaiting:
    """A piece is complete, and the next may not have been told yet: a silence here is nobody's fault."""


Heard = Sound | Remark | Awaiting


class Speech(Protocol):
    """A session; an asynchronous context manager."""

    @property
    def sample_rate(self) -> int:
        """Hz."""
        ...

    @property
    def seed(self) -> int | None:
        """What the speech's random numbers come from, where that is known."""
        ...

    async def say(self, text: str) -> None:
        """Say ``text`` after what was said; waits while much is waiting."""
        ...

    async def finish(self) -> None:
        """The text is complete."""
        ...

    def heard(self, buffered: Callable[[], float]) -> AsyncIterator[Heard]:
        """Everything until the finished text is spoken; ``buffered`` tells how many seconds wait to be played."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Local:
    """A model loaded here, for one session."""

    def __init__(self, directory: Path, manner: Manner, threads: int | None = None) -> None:
        """Load it; blocking.

        Raises:
            ManifestError, GgufError, ProviderError, OptionError: as the model says.
        """
        from codec.model import TtsModel
        from codec.options import SpeakOptions

        options = SpeakOptions(
            voice=manner.voice,
            language=manner.language,
            instructions=manner.instructions,
            speed=manner.speed,
            seed=manner.seed,
            sample_rate=manner.sample_rate,
        )
        self._model = TtsModel(directory, sessions=1, threads=threads)
        try:
            self._speaker = self._model.speaker(options)
        except BaseException:
            self._model.close()
            raise
        self._stepped = asyncio.Event()

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return self._speaker.sample_rate

    @property
    def seed(self) -> int | None:
        """The one given, or the one drawn."""
        return self._speaker.seed

    async def say(self, text: str) -> None:
        """Say ``text``."""
        while self._speaker.pending > MAX_AHEAD:
            self._stepped.clear()
            await self._stepped.wait()
        self._speaker.say(text)

    async def finish(self) -> None:
        """The text is complete."""
        self._speaker.finish()

    async def heard(self, buffered: Callable[[], float]) -> AsyncIterator[Heard]:
        """Everything until the finished text is spoken."""
        from codec.events import AudioChunk, PieceMark, PieceStarted, Warning

        speaker, in_piece = self._speaker, False
        while not speaker.finished:
            events = await asyncio.to_thread(speaker.step, buffered())
            self._stepped.set()
            for event in events:
                match event:
                    case AudioChunk():
                        yield Sound(pcm16(event.samples))
                    case Warning():
                        yield Remark(event.description)
                    case PieceStarted() | PieceMark():
                        in_piece = isinstance(event, PieceStarted)
                    case _:
                        pass
            if not events and not speaker.finished:
                if not in_piece:
                    yield Awaiting()
                await asyncio.to_thread(speaker.wait)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not in a thread: it must also happen while this task is being cancelled, and takes one model call at most.
        self._speaker.close()
        self._model.close()


class Remote:
    """A session on a daemon's ``/v1/speak``."""

    def __init__(self, url: str, key: str | None, model: str | None, manner: Manner) -> None:
        from clients.speech import AsyncSpeech, SpeechOptions

        self.seed: int | None = manner.seed
        options = SpeechOptions(
            model=model,
            voice=manner.voice,
            language=manner.language,
            instructions=manner.instructions,
            speed=manner.speed if manner.speed != 1 else None,
            seed=manner.seed,
            sample_rate=manner.sample_rate or RATE,
            marks=True,
        )
        self._speech = AsyncSpeech(url, options, key=key)
        self._flushes = self._answered = self._since_flush = 0
        self._room = asyncio.Condition()
        self._finished = False
        self._alive: asyncio.Task[None] | None = None

    @property
    def sample_rate(self) -> int:
        """Hz."""
        return self._speech.options.sample_rate

    async def say(self, text: str) -> None:
        """Say ``text``."""
        if self._since_flush + len(text) > MAX_AHEAD:
            # The protocol tells how far the daemon has come only where a flush was; a piece ends there.
            cut = last_break(text)
            await self._tell(text[:cut])
            await self._flush()
            async with self._room:
                await self._room.wait_for(lambda: self._flushes - self._answered < 2)
            text = text[cut:]
        await self._tell(text)

    async def _tell(self, text: str) -> None:
        if text:
            await self._speech.speak(text)
            self._since_flush += len(text)

    async def finish(self) -> None:
        """The text is complete."""
        self._finished = True
        await self._flush()

    async def heard(self, buffered: Callable[[], float]) -> AsyncIterator[Heard]:
        """Everything until the finished text is spoken."""
        from clients.events import Fault
        from clients.speech import Audio, Flushed, Piece, SpeechMetadata, SpeechWarning

        del buffered  # the daemon reckons it from what it has sent
        async for event in self._speech:
            match event:
                case Audio():
                    yield Sound(event.data)
                case Piece():
                    yield Awaiting()
                case SpeechMetadata():
                    self.seed = event.seed
                    for warning in event.warnings:
                        yield Remark(warning)
                case SpeechWarning():
                    yield Remark(event.message)
                case Fault():
                    yield Remark(event.message)
                case Flushed():
                    async with self._room:
                        self._answered += 1
                        self._room.notify_all()
                    if self._finished and self._answered == self._flushes:
                        await self._speech.close_speech()
                case _:
                    pass

    async def _flush(self) -> None:
        self._since_flush = 0
        self._flushes += 1
        await self._speech.flush()

    async def __aenter__(self) -> Self:
        await self._speech.connect()
        self._alive = asyncio.create_task(self._stay())
        return self

    async def _stay(self) -> None:
        """Whoever writes the text may think for longer than the daemon waits."""
        from clients.events import ListenError

        with contextlib.suppress(ListenError):  # whoever iterates is told
            while True:
                await asyncio.sleep(KEEP_ALIVE_SECONDS)
                await self._speech.keep_alive()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alive is not None:
            self._alive.cancel()
        await self._speech.close()


def last_break(text: str) -> int:
    """Where ``text`` is best cut: after its last sentence, else its last word, else at its end."""
    sentence = max((found.end() for found in re.finditer(r"[.!?…]\s+|\n", text)), default=0)
    word = max((found.end() for found in re.finditer(r"\s+", text)), default=0)
    return sentence or word or len(text)


def pcm16(samples: "npt.NDArray[np.float32]") -> bytes:
    """Samples −1…1 as 16-bit little-endian PCM."""
    import numpy as np

    return np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes()


def speaking_model(name: str | None) -> Path:
    """The directory of a speaking model, the default one without a name.

    Raises:
        Failure: there is no default one.
        ModelNotFound: no model of that name.
    """
    from engines import store

    if name is not None:
        return store.find(name)
    try:
        return store.find(store.default("tts"))
    except store.ModelNotFound:
        raise Failure(
            f"no speaking model is installed: {store.default('tts')} is not here. Name one (--tts-model NAME|DIR), or "
            "export or pull one (hearsay export run --help, hearsay models pull --help)"
        ) from None
