"""What ``POST /v1/listen`` is asked for: Deepgram's query parameters for a recording, checked as those of a stream."""

from dataclasses import dataclass
from typing import Final

from audio.pcm import Shape
from daemon.deepgram.listen_query import (
    COMMON,
    IGNORED,
    MANY,
    audio_shape,
    detects,
    forced_language,
    keyterms,
    renamed,
)
from daemon.parameters import HEARING_ALIASES, asked, flag, number, wrong
from engines.sessions import OptionError
from streaming.options import ListenOptions

HONOURED: Final = COMMON | IGNORED | {"paragraphs", "smart_format", "utterances", "utt_split", "multichannel"}

_MOST_SPLIT: Final = 60.0


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A checked request for one recording.

    Attributes:
        shape: of raw audio; None: a file that tells.
        punctuate: False: words only, lower case.
        utt_split: seconds without a word that part utterances.
        multichannel: every channel is heard alone.
        detected: the language that was found is told.
    """

    options: ListenOptions
    shape: Shape | None
    punctuate: bool
    paragraphs: bool
    utterances: bool
    utt_split: float
    multichannel: bool
    detected: bool
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str) -> RecordedRequest:
    """Check a query string; ``model`` is the name of the loaded one, which itself checks language and keyterms.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    given, one, warnings = asked(query_string, model, HEARING_ALIASES, HONOURED, many=MANY)
    utt_split = number(one, "utt_split", 0.8)
    if not 0 < utt_split <= _MOST_SPLIT:
        raise wrong("utt_split", f"utt_split: {utt_split:g} s lies outside 0…{_MOST_SPLIT:g} s")
    shape = audio_shape(one, warnings)
    try:
        options = ListenOptions(language=forced_language(one), keyterms=keyterms(given, warnings), interim=False)
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
        warnings=tuple(warnings),
    )
