"""Speech from a model that is loaded in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from commands.console import tell_loading
from commands.speech import MAX_AHEAD, Awaiting, Manner, Remark, Sound, SpeechEvent, Spoken

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Local:
    """A model that is loaded in this process, for one session."""

    def __init__(self, directory: Path, manner: Manner, threads: int | None = None) -> None:
        """Load it; blocking.

        Raises:
            ManifestError, GgufError, GraphError, ProviderError, OptionError: as the model says.
        """
        from codec.arrival import Arrival
        from codec.model import TtsModel

        options = manner.options()
        tell_loading(directory)
        self._model = TtsModel(directory, sessions=1, threads=threads)
        try:
            self._speaker = self._model.speaker(options)
        except BaseException:
            self._model.close()
            raise
        self._stepped = asyncio.Event()
        self._arrival = Arrival()

    @property
    def sample_rate(self) -> int:
        """Hertz."""
        return self._speaker.sample_rate

    @property
    def seed(self) -> int | None:
        """The seed that was given, or the one that was drawn."""
        return self._speaker.seed

    async def say(self, text: str) -> None:
        """Say ``text``."""
        while self._speaker.pending > MAX_AHEAD:
            self._stepped.clear()
            await self._stepped.wait()
        self._speaker.say(text)
        self._arrival.came(len(text))

    async def finish(self) -> None:
        """Say that the text is complete."""
        self._arrival.begins_anew()
        self._speaker.finish()

    async def events(self, buffered: Callable[[], float]) -> AsyncIterator[SpeechEvent]:
        """Every event until the finished text is spoken."""
        from codec.events import AudioChunk, PieceMark, PieceStarted, SpeechWarning

        speaker, in_piece = self._speaker, False
        while not speaker.finished:
            hold = self._arrival.slow
            events = await asyncio.to_thread(partial(speaker.step, buffered(), hold=hold))
            self._stepped.set()
            for event in events:
                match event:
                    case AudioChunk():
                        yield Sound(pcm16(event.samples))
                    case SpeechWarning():
                        yield Remark(event.description)
                    case PieceStarted():
                        in_piece = True
                    case PieceMark():
                        in_piece = False
                        for word in event.words:
                            yield Spoken(word.text, word.start, word.end)
                    case _:
                        pass
            if not events and not speaker.finished:
                if not in_piece:
                    yield Awaiting()
                await asyncio.to_thread(speaker.wait, max(0.0, self._arrival.idle_in) if hold else None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # This is not done in a thread: it must also happen while this task is being cancelled, and takes one model call
        # at most.
        self._speaker.close()
        self._model.close()


def pcm16(samples: "npt.NDArray[np.float32]") -> bytes:
    """Samples −1…1 as 16-bit little-endian PCM."""
    import numpy as np

    return np.clip(np.rint(samples * 32767), -32768, 32767).astype("<i2").tobytes()
