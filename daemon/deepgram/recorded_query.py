"""What ``POST /v1/listen`` is asked for: Deepgram's query parameters for a recording, checked as those of a stream."""

from dataclasses import dataclass
from typing import Final

from audio.pcm import Shape
from daemon.deepgram.listen_query import (
    COMMON,
    ELSEWHERE,
    IGNORED,
    MANY,
    audio_shape,
    detects,
    forced_language,
    keyterms,
    renamed,
    track,
)
from daemon.fields import Fields
from daemon.parameters import asked, flag, number, wrong
from engines.sessions import OptionError
from streaming.options import ListenOptions

HONOURED: Final = COMMON | IGNORED | {"paragraphs", "smart_format", "utterances", "utt_split", "multichannel"}
FIELDS: Final = Fields(HONOURED, ELSEWHERE, code="invalid_query")

_MOST_SPLIT: Final = 60.0
"""Seconds: a pause of a minute parts utterances for every client."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A checked request for one recording.

    Attributes:
        shape: of raw audio; None: a file that tells.
        punctuate: False: words only, lower case.
        utt_split: seconds without a word that part utterances.
        multichannel: every channel is heard alone.
        detected: the language that was found is told.
        track: of a file: the one that is heard, 1…; None: as ``audio.sound.Wanted`` says.
    """

    options: ListenOptions
    shape: Shape | None
    punctuate: bool
    paragraphs: bool
    utterances: bool
    utt_split: float
    multichannel: bool
    detected: bool
    track: int | None
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str, *, strict: bool = False) -> RecordedRequest:
    """Check a query string; arguments as those of a stream (``listen_query.parse``).

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    query = asked(query_string, FIELDS, model, "hears", strict=strict, many=MANY)
    one, warnings = query.one, query.warnings
    utt_split = number(one, "utt_split", 0.8)
    if not 0 < utt_split <= _MOST_SPLIT:
        raise wrong("utt_split", f"utt_split: {utt_split:g} s lies outside 0…{_MOST_SPLIT:g} s")
    shape = audio_shape(one, warnings)
    try:
        options = ListenOptions(
            language=forced_language(one, warnings),
            keyterms=keyterms(query.given, warnings),
            interim=False,
            speakers=flag(one, "diarize", False),
        )
    except OptionError as error:
        raise renamed(error) from None
    return RecordedRequest(
        options=options,
        shape=shape,
        punctuate=flag(one, "punctuate", True),
        paragraphs=flag(one, "paragraphs", False) or flag(one, "smart_format", False),
        utterances=flag(one, "utterances", False),
        utt_split=utt_split,
        multichannel=flag(one, "multichannel", False),
        detected=detects(one),
        track=track(one, shape),
        warnings=tuple(warnings),
    )
