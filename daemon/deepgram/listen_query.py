"""What ``/v1/listen`` is asked for: Deepgram's query parameters, checked before the upgrade.

Those we honour become a ``ListenRequest``. Any other is named in ``warnings`` where it asks for something: what
Deepgram's clients send must not keep them out, unless the answer would deceive them (``redact``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from audio.ffmpeg import MOST_TRACKS
from audio.pcm import ENCODINGS, FormatError, Shape
from audio.wire import RawDecoder
from daemon.fields import Fields
from daemon.names import language
from daemon.parameters import asked, flag, whole, wrong
from daemon.refusal import Refused
from engines.sessions import OptionError
from streaming.options import ListenOptions
from streaming.turn import Turn

CONTAINED: Final = ("opus", "ogg-opus", "flac", "mp3", "aac")
"""Encodings that come in a container, which tells everything else itself."""
OTHER_NAMES: Final = {"linear32": "float32"}

MANY: Final = frozenset({"keyterm", "keywords", "detect_language"})
"""Parameters that may be given several times."""
IGNORED: Final = frozenset({"version", "mip_opt_out", "no_delay"})
"""Parameters that rightly change nothing here."""
COMMON: Final = frozenset({
    "model", "language", "encoding", "sample_rate", "channels", "keyterm", "keywords", "punctuate",
    "detect_language", "track", "diarize",
})  # fmt: skip
"""Parameters that are honoured for streams and files alike."""
HONOURED: Final = COMMON | IGNORED | {
    "interim_results", "endpointing", "utterance_end_ms", "vad_events", "multichannel", "speaker_merged",
}  # fmt: skip

ELSEWHERE: Final = {
    "keyterms": "keyterm", "hotwords": "keyterm", "lang": "language", "lang_code": "language",
    "language_code": "language", "model_id": "model", "samplerate": "sample_rate",
}  # fmt: skip
"""Names that other servers give to some of those, each with its name here."""
FIELDS: Final = Fields(HONOURED, ELSEWHERE, code="invalid_query")

NAMES: Final = {"keyterms": "keyterm"}
"""The parameters in which options of the listener come, where those have another name."""

_CODE: Final = re.compile("[a-z]{2,3}(-[A-Za-z0-9]+)*")

SHORTEST_ENDPOINT: Final = 300
"""Milliseconds. A shorter silence often lies within a sentence, whose halves are heard worse than the whole."""
_MOST_MILLISECONDS: Final = 10_000
"""Milliseconds. A longer silence is no endpoint of an utterance, which has 24 s at most."""


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """A checked request for one stream."""

    options: ListenOptions
    shape: Shape | None
    """The format of raw audio; None for a container, which tells its own."""
    multichannel: bool
    """Whether every channel is heard for itself."""
    vad_events: bool
    speaker_merged: bool
    """Whether messages say that two speakers are one, or who one is. Deepgram's SDKs hand None to a program for what
    they do not know, hence they come only to who asks."""
    punctuate: bool
    """Whether there are marks and capitals, which the model writes by itself. Without them there are words only, in
    lower case."""
    track: int | None
    """The track of a container that is heard, 1…; None where ``audio.sound.Wanted`` chooses."""
    warnings: tuple[str, ...]


def parse(query_string: bytes, model: str, *, strict: bool = False) -> ListenRequest:
    """Check a query string.

    Args:
        query_string: as it stands in the URL.
        model: name of the loaded model, which itself checks language and keyterms.
        strict: refuse what would be ignored.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    query = asked(query_string, FIELDS, model, "hears", strict=strict, many=MANY)
    one, warnings = query.one, query.warnings
    shape = audio_shape(one, warnings)
    endpointing = _endpointing(one, warnings)
    multichannel = flag(one, "multichannel", False)
    if multichannel and shape is None:
        raise wrong("multichannel", "multichannel: a stream needs encoding, sample_rate and channels for it")
    speakers, merged = flag(one, "diarize", False), flag(one, "speaker_merged", False)
    if merged and not speakers:
        warnings.append("speaker_merged: without diarize nobody is told apart, so it says nothing")
    try:
        options = ListenOptions(
            language=forced_language(one, warnings),
            keyterms=keyterms(query.given, warnings),
            interim=flag(one, "interim_results", False),
            endpointing=endpointing,
            utterance_end=_milliseconds(one, "utterance_end_ms", 100),
            speakers=speakers,
        )
    except OptionError as error:
        raise renamed(error) from None
    return ListenRequest(
        options,
        shape,
        multichannel,
        flag(one, "vad_events", False),
        merged,
        flag(one, "punctuate", True),
        track=track(one, shape),
        warnings=tuple(warnings),
    )


def audio_shape(one: Mapping[str, str], warnings: list[str]) -> Shape | None:
    """The format of raw audio; None for a container.

    Raises:
        Refused: 400, an encoding that is not understood, or half of a format.
    """
    encoding = one.get("encoding", "").lower()
    encoding = OTHER_NAMES.get(encoding, encoding)
    if not encoding or encoding in CONTAINED:
        why = f"with encoding={encoding}" if encoding else "without encoding"
        for name in ("sample_rate", "channels"):
            if one.get(name):
                warnings.append(f"{name}: {why} it counts for nothing; a container tells its own")
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


def track(one: Mapping[str, str], shape: Shape | None) -> int | None:
    """The track of sound that is to be heard, 1…; None where the request names none.

    Raises:
        Refused: 400, it is none, or the audio is raw and has no tracks.
    """
    if "track" not in one:
        return None
    number = whole(one, "track", 0)
    if not 1 <= number <= MOST_TRACKS:
        raise wrong("track", f"track: {number} lies outside 1…{MOST_TRACKS}")
    if shape is not None:
        raise wrong("track", "track: raw audio has no tracks, a container has")
    return number


def forced_language(one: Mapping[str, str], warnings: list[str]) -> str | None:
    """The language that is forced; None where the model is to tell."""
    detected, forced = detects(one), language(one.get("language", ""))
    if forced is None or not detected:
        return forced
    warnings.append(f"language: {forced} is not forced, because detect_language leaves it to the model")
    return None


def detects(one: Mapping[str, str]) -> bool:
    """Whether the model is to tell the language. It may go beyond a list of languages."""
    given = one.get("detect_language", "false")
    if given.lower() in ("true", "false"):
        return given.lower() == "true"
    if _CODE.fullmatch(given) is None:
        told = f"detect_language: {given[:80]!r} is not true, false or the code of a language, as en"
        raise wrong("detect_language", told)
    return True


def keyterms(given: Mapping[str, list[str]], warnings: list[str]) -> tuple[str, ...]:
    """``keyterm`` and ``keywords`` together. A keyword with a negative intensifier is left out: it is to be heard less,
    which nothing here does."""
    boosted = [word.partition(":") for word in given.get("keywords", ())]
    kept = [word for word, _, intensifier in boosted if not intensifier.strip().startswith("-")]
    if boosted:
        left_out = f", {len(boosted) - len(kept)} with a negative one left out" if len(kept) < len(boosted) else ""
        warnings.append(f"keywords: taken as keyterms, their intensifiers are ignored{left_out}")
    return (*given.get("keyterm", ()), *kept)


def renamed(error: OptionError) -> Refused:
    """The refusal of an option, under the name that its parameter has here."""
    name = NAMES.get(error.field, error.field)
    return wrong(name, f"{name}: {error.reason}")


def _milliseconds(one: Mapping[str, str], name: str, least: int) -> float | None:
    if one.get(name, "false").lower() == "false":
        return None
    given = whole(one, name, 0)
    if not least <= given <= _MOST_MILLISECONDS:
        raise wrong(name, f"{name}: {given} ms lies outside {least}…{_MOST_MILLISECONDS} ms")
    return given / 1000


def _endpointing(one: Mapping[str, str], warnings: list[str]) -> Turn | float | None:
    given = one.get("endpointing", "true").lower()
    if given in ("true", "turn"):
        return Turn() if given == "turn" else ListenOptions().endpointing
    if given and given.strip("0") == "":
        warnings.append("endpointing: 0 is taken as false: no silence ends an utterance")
        return None
    seconds = _milliseconds(one, "endpointing", 1)
    if seconds is None or seconds * 1000 >= SHORTEST_ENDPOINT:
        return seconds
    warnings.append(f"endpointing: {seconds * 1000:g} ms is raised to {SHORTEST_ENDPOINT} ms, the shortest")
    return SHORTEST_ENDPOINT / 1000
