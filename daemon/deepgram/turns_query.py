"""What ``/v2/listen`` (Flux) is asked for: query parameters and ``Configure`` messages, checked alike.

A threshold is the probability that a turn has ended (``streaming.turn``); 1 is never reached.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from audio.pcm import Shape
from daemon.deepgram.listen_query import ELSEWHERE, audio_shape, keyterms, renamed
from daemon.fields import Fields
from daemon.names import language
from daemon.parameters import asked, number, whole, wrong
from engines.sessions import OptionError
from streaming.options import ListenOptions
from streaming.turn import Turn

HONOURED: Final = frozenset({
    "model", "encoding", "sample_rate", "keyterm", "eot_threshold", "eager_eot_threshold", "eot_timeout_ms",
    "mip_opt_out", "keywords", "language",
})  # fmt: skip
FIELDS: Final = Fields(HONOURED, ELSEWHERE | {"language_hint": "language"}, code="invalid_query")
_LEAST: Final = 0.35
"""Seconds of silence before which no turn ends: people pause as long at commas."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The rules by which a turn ends.

    Raises:
        ValueError: outside the limits; its arguments are the name and what is wrong.
    """

    eot_threshold: float = 0.7
    eager_eot_threshold: float | None = None
    eot_timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        _within("eot_threshold", self.eot_threshold, 0.5, 1.0)
        _within("eot_timeout_ms", self.eot_timeout_ms, 500, 60_000)
        if self.eager_eot_threshold is not None:
            _within("eager_eot_threshold", self.eager_eot_threshold, 0.3, 0.9)
            if self.eager_eot_threshold > self.eot_threshold:
                given = f"{self.eager_eot_threshold:g} is more than eot_threshold, {self.eot_threshold:g}"
                raise ValueError("eager_eot_threshold", given)

    @property
    def turn(self) -> Turn:
        """What ends a turn."""
        return Turn(self.eot_threshold, self.eot_timeout_ms / 1000, self.eager_eot_threshold, least=_LEAST)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(name, f"{value:g} lies outside {low:g}…{high:g}")


@dataclass(frozen=True, slots=True)
class TurnsRequest:
    """A checked request for one stream."""

    thresholds: Thresholds
    terms: tuple[str, ...]
    language: str | None
    """The language that is forced; None where the model is to tell."""
    shape: Shape | None
    """The format of raw audio; None for a container, which tells its own."""
    warnings: tuple[str, ...]

    @property
    def options(self) -> ListenOptions:
        """The options of the listener."""
        return ListenOptions(
            language=self.language,
            keyterms=self.terms,
            endpointing=self.thresholds.turn,
        )


def parse(query_string: bytes, model: str, *, strict: bool = False) -> TurnsRequest:
    """Check a query string; arguments as those of a stream (``listen_query.parse``).

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    query = asked(query_string, FIELDS, model, "hears", strict=strict, many={"keyterm", "keywords"})
    one, warnings = query.one, query.warnings
    try:
        found = TurnsRequest(
            _thresholds(one),
            keyterms(query.given, warnings),
            language(one.get("language")),
            audio_shape(one, warnings),
            tuple(warnings),
        )
        _ = found.options
    except OptionError as error:
        raise renamed(error) from None
    except ValueError as error:
        name, reason = error.args
        raise wrong(name, f"{name}: {reason}") from None
    return found


def _thresholds(one: Mapping[str, str]) -> Thresholds:
    standard = Thresholds()
    eager = number(one, "eager_eot_threshold", 0.0) if one.get("eager_eot_threshold") else None
    threshold = number(one, "eot_threshold", standard.eot_threshold)
    return Thresholds(threshold, eager, whole(one, "eot_timeout_ms", standard.eot_timeout_ms))
