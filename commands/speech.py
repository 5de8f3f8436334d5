"""Where speech comes from, in one shape: a model of this process (``commands.local``), a daemon (``commands.remote``).

Both are told text by one task and iterated for sound by another. Sound is 16-bit little-endian mono PCM at
``sample_rate``.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from commands.console import MISUSED, Failure

MAX_AHEAD = 8_000
"""Characters that are told and not yet spoken; whoever tells more waits."""


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
            "export or pull one (hearsay export run --help, hearsay models pull --help)",
            MISUSED,
        ) from None
