"""What ``/v1/listen`` is asked for: Deepgram's query parameters, checked before the upgrade.

Those we honour become a ``ListenRequest``. Any other is accepted, and named in ``warnings`` where it asks for
something: what Deepgram's clients send must not keep them out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from audio.pcm import ENCODINGS, FormatError, Shape
from audio.wire import RawDecoder
from daemon.parameters import HEARING_ALIASES, Given, asked, flag, language, whole, wrong
from daemon.refusal import Refused
from engines.sessions import OptionError
from streaming.options import ListenOptions

CONTAINED: Final = ("opus", "ogg-opus", "flac", "mp3", "aac")
"""Encodings that come in a container, which tells itself what it is."""
OTHER_NAMES: Final = {"linear32": "float32"}

MANY: Final = frozenset({"keyterm", "keywords", "detect_language"})
"""May be given several times."""
IGNORED: Final = frozenset({"version", "mip_opt_out", "no_delay"})
"""Change nothing here, which is as it should be."""
COMMON: Final = frozenset({
    "model", "language", "encoding", "sample_rate", "channels", "keyterm", "keywords", "punctuate",
    "detect_language",
})  # fmt: skip
"""Honoured for streams and files alike."""
HONOURED: Final = COMMON | IGNORED | {
    "interim_results", "endpointing", "utterance_end_ms", "vad_events", "multichannel",
}  # fmt: skip

NAMES: Final = {"keyterms": "keyterm"}
"""What options of the listener are called here, where that is something else."""

_CODE: Final = re.compile("[a-z]{2,3}(-[A-Za-z0-9]+)*")

SHORTEST_ENDPOINT: Final = 300
"""Milliseconds. A shorter silence is often one within a sentence, whose halves are heard worse than the whole."""
_MOST_MILLISECONDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """A checked request for one stream."""

    options: ListenOptions
    shape: Shape | None
    """Of raw audio; None: a container, which tells."""
    multichannel: bool
    """Every channel is heard for itself."""
    vad_events: bool
    punctuate: bool
    """False: words only, lower case without punctuation; the model writes both unless told so."""
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str) -> ListenRequest:
    """Check a query string; ``model`` is the name of the loaded one, which itself checks language and keyterms.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    given, one, warnings = asked(query_string, model, HEARING_ALIASES, HONOURED, many=MANY)
    shape = audio_shape(one, warnings)
    endpointing = _endpointing(one, warnings)
    multichannel = flag(one, "multichannel", False)
    if multichannel and shape is None:
        raise wrong("multichannel", "multichannel: a stream needs encoding, sample_rate and channels for it")
    try:
        options = ListenOptions(
            language=forced_language(one),
            keyterms=keyterms(given, warnings),
            interim=flag(one, "interim_results", False),
            endpointing=endpointing,
            utterance_end=_milliseconds(one, "utterance_end_ms", 100),
        )
    except OptionError as error:
        raise renamed(error) from None
    return ListenRequest(
        options,
        shape,
        multichannel,
        flag(one, "vad_events", False),
        flag(one, "punctuate", True),
        warnings=tuple(warnings),
    )


def audio_shape(one: Mapping[str, str], warnings: list[str]) -> Shape | None:
    """The format of raw audio; None: a container.

    Raises:
        Refused: 400, an encoding that is not understood, or half of a format.
    """
    encoding = one.get("encoding", "").lower()
    encoding = OTHER_NAMES.get(encoding, encoding)
    if not encoding or encoding in CONTAINED:
        if not encoding and one.get("sample_rate"):
            warnings.append("sample_rate: without encoding it counts for nothing; a container tells its own")
        return None
    if encoding not in ENCODINGS:
        known = ", ".join((*ENCODINGS, *CONTAINED))
        raise wrong("encoding", f"encoding: {encoding!r} is none of {known}; without it a container is expected")
    if not one.get("sample_rate"):
        raise wrong("sample_rate", f"sample_rate: {encoding} needs it, in Hz")
    shape = Shape(encoding, whole(one, "sample_rate", 0), whole(one, "channels", 1))
    try:
        RawDecoder(shape, 16_000)
    except FormatError as error:
        raise wrong(error.field, str(error)) from None
    return shape


def forced_language(one: Mapping[str, str]) -> str | None:
    """The language to force; None: the model tells."""
    return None if detects(one) else language(one.get("language", ""))


def detects(one: Mapping[str, str]) -> bool:
    """Whether the model is to tell the language, of all or of those that are listed, which it may go beyond."""
    return _CODE.fullmatch(one.get("detect_language", "")) is not None or flag(one, "detect_language", False)


def keyterms(given: Given, warnings: list[str]) -> tuple[str, ...]:
    """``keyterm`` and ``keywords`` together; a keyword with a negative intensifier is to be heard less, which nothing
    here does."""
    boosted = [word.partition(":") for word in given.get("keywords", ())]
    kept = [word for word, _, intensifier in boosted if not intensifier.strip().startswith("-")]
    if boosted:
        left_out = f", {len(boosted) - len(kept)} with a negative one left out" if len(kept) < len(boosted) else ""
        warnings.append(f"keywords: taken as keyterms, their intensifiers are ignored{left_out}")
    return (*given.get("keyterm", ()), *kept)


def renamed(error: OptionError) -> Refused:
    """400 with the parameter's name of here."""
    name = NAMES.get(error.field, error.field)
    return wrong(name, f"{name}: {error.reason}")


def _milliseconds(one: Mapping[str, str], name: str, least: int) -> float | None:
    if one.get(name, "false").lower() == "false":
        return None
    given = whole(one, name, 0)
    if not least <= given <= _MOST_MILLISECONDS:
        raise wrong(name, f"{name}: {given} ms lies outside {least}…{_MOST_MILLISECONDS} ms")
    return given / 1000


def _endpointing(one: Mapping[str, str], warnings: list[str]) -> float | None:
    if one.get("endpointing", "true").lower() == "true":
        return ListenOptions().endpointing
    if one["endpointing"].strip("0") == "":
        warnings.append("endpointing: 0 is taken as false: no silence ends an utterance")
        return None
    seconds = _milliseconds(one, "endpointing", 1)
    if seconds is None or seconds * 1000 >= SHORTEST_ENDPOINT:
        return seconds
    warnings.append(f"endpointing: {seconds * 1000:g} ms is raised to {SHORTEST_ENDPOINT} ms, the shortest")
    return SHORTEST_ENDPOINT / 1000
