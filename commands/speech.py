"""Where speech comes from, in one shape: a model of this process (``commands.local``), a daemon (``commands.remote``).

Both are told text by one task and iterated for sound by another. Sound is 16-bit little-endian mono PCM at
``sample_rate``.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from commands.console import MISUSED, Failure, chosen

if TYPE_CHECKING:
    from codec.options import SpeakOptions

MAX_AHEAD = 8_000
"""Characters that may be told and not yet spoken. Whoever tells more waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How to speak; None leaves a choice to the model. ``sample_rate`` in Hz."""

    voice: str | None = None
    language: str | None = None
    instructions: str | None = None
    speed: float = 1.0
    pauses: float | None = None
    word_times: bool = False
    seed: int | None = None
    sample_rate: int | None = None
    lexicon: Path | None = None
    """The file of the user's own pronunciations, for a model of this process only."""

    def options(self) -> "SpeakOptions":
        """The same for a model of this process.

        Raises:
            OptionError: a value lies outside its limits, or the lexicon cannot be read.
        """
        from codec.options import SpeakOptions
        from codec.sounds.lexicon import Lexicon

        return SpeakOptions(
            voice=self.voice,
            language=self.language,
            instructions=self.instructions,
            speed=self.speed,
            pauses=self.pauses,
            word_times=self.word_times,
            seed=self.seed,
            sample_rate=self.sample_rate,
            lexicon=None if self.lexicon is None else Lexicon.load(self.lexicon),
        )


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


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word has been spoken: seconds since the speech began."""

    word: str
    start: float
    end: float


SpeechEvent = Sound | Remark | Awaiting | Spoken


class Speech(Protocol):
    """A session of speech. It is an asynchronous context manager."""

    @property
    def sample_rate(self) -> int:
        """Hz."""
        ...

    @property
    def seed(self) -> int | None:
        """The seed of the speech's random numbers, where it is known."""
        ...

    async def say(self, text: str) -> None:
        """Say ``text`` after what was said; waits while much is waiting."""
        ...

    async def finish(self) -> None:
        """Say that the text is complete."""
        ...

    def events(self, buffered: Callable[[], float]) -> AsyncIterator[SpeechEvent]:
        """Every event until the finished text is spoken. ``buffered`` tells how many seconds wait to be played."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def speaking_model(name: str | None, threads: int | None = None) -> Path:
    """The directory of a speaking model; without a name, of the one that is chosen here.

    Raises:
        Failure: there is none to choose.
        ModelNotFound: no model of that name.
    """
    from engines.store import ModelNotFound

    try:
        return chosen("tts", name, "--tts-model", threads)
    except ModelNotFound:
        if name is not None:
            raise
        raise Failure(
            "no speaking model is installed: hearsay models pull qwen3-tts-0.6b brings one, --tts-model NAME|DIR names "
            "another",
            MISUSED,
        ) from None
