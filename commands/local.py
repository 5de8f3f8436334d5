"""Speech from a model that is loaded in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from commands.speech import MAX_AHEAD, Awaiting, Heard, Manner, Remark, Sound

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Local:
    """A model loaded here, for one session."""

    def __init__(self, directory: Path, manner: Manner, threads: int | None = None) -> None:
        """Load it; blocking.

        Raises:
            ManifestError, GgufError, GraphError, ProviderError, OptionError: as the model says.
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


def pcm16(samples: "npt.NDArray[np.float32]") -> bytes:
    """Samples −1…1 as 16-bit little-endian PCM."""
    import numpy as np

    return np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes()
