"""What ``/v1/listen`` is asked for: Deepgram's query parameters, checked before the upgrade.

Every parameter Deepgram documents is known here. Those we honour become a ``ListenRequest``; those we do not are
accepted and named in ``warnings`` where they ask for something; any other name is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from audio.pcm import ENCODINGS, FormatError, PcmDecoder
from daemon import parameters
from daemon.parameters import HEARING_ALIASES, check_model, flag, language, whole, wrong
from engines.sessions import OptionError
from streaming.options import ListenOptions

SAMPLE_BYTES: Final = {"linear16": 2, "float32": 4, "mulaw": 1, "alaw": 1}

_MANY: Final = frozenset({"keyterm", "keywords"})
HONOURED: Final = frozenset({
    "model", "language", "encoding", "sample_rate", "channels", "interim_results", "endpointing", "utterance_end_ms",
    "vad_events", "keyterm", "keywords", "punctuate", "version", "mip_opt_out", "no_delay", "detect_language",
})  # fmt: skip
NOT_HONOURED: Final = frozenset({
    "alternatives", "callback", "callback_method", "custom_intent", "custom_intent_mode", "custom_topic",
    "custom_topic_mode", "detect_entities", "diarize", "diarize_model", "diarize_version", "dictation", "extra",
    "filler_words", "intents", "language_hint", "measurements", "multichannel", "numerals", "paragraphs",
    "profanity_filter", "redact", "replace", "search", "sentiment", "smart_format", "summarize", "tag", "tier",
    "topics", "utt_split", "utterances",
})  # fmt: skip
"""Deepgram's parameters that are accepted and change nothing. docs/deepgram.md lists them."""

NAMES: Final = {"keyterms": "keyterm"}
"""What options of the listener are called here, where that is something else."""

_MOST_MILLISECONDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """A checked request for one stream."""

    options: ListenOptions
    encoding: str
    sample_rate: int
    channels: int
    vad_events: bool
    punctuate: bool
    """False: words only, lower case without punctuation; the model writes both unless told so."""
    warnings: tuple[str, ...]

    @property
    def bytes_per_second(self) -> int:
        """Of the wire."""
        return SAMPLE_BYTES[self.encoding] * self.sample_rate * self.channels

    def decoder(self, target_rate: int) -> PcmDecoder:
        """A decoder of the wire format to the model's rate."""
        return PcmDecoder(self.encoding, self.sample_rate, self.channels, target_rate)


def parse(query_string: bytes, model: str) -> ListenRequest:
    """Check a query string; ``model`` is the name of the loaded one, which itself checks language and keyterms.

    Raises:
        Refused: 400 naming the parameter and what it may be.
    """
    given = parameters.read(query_string, HONOURED, NOT_HONOURED, _MANY)
    one = parameters.last(given)
    check_model(one.get("model", ""), model, HEARING_ALIASES, status=400)
    encoding = one.get("encoding", "")
    if encoding and encoding.lower() not in ENCODINGS:  # said first: with a sample rate it would be as unknown
        files = "compressed audio goes to POST /v1/audio/transcriptions"
        raise wrong("encoding", f"encoding: {encoding!r} is none of {', '.join(ENCODINGS)}; {files}")
    missing = [name for name in ("encoding", "sample_rate") if not one.get(name)]
    if missing:
        raise wrong(
            missing[0],
            f"{' and '.join(missing)} missing: raw audio needs encoding ({', '.join(ENCODINGS)}) and sample_rate "
            "(in Hz). Files with a header go to POST /v1/audio/transcriptions",
        )
    warnings = parameters.not_honoured(given, NOT_HONOURED)
    if "keywords" in given:
        warnings.append("keywords: taken as keyterms, their intensifiers are ignored")
    try:
        request = ListenRequest(
            options=ListenOptions(
                language=None if flag(one, "detect_language", False) else language(one.get("language", "")),
                keyterms=tuple(given.get("keyterm", ())) + tuple(k.split(":")[0] for k in given.get("keywords", ())),
                interim=flag(one, "interim_results", False),
                endpointing=_endpointing(one),
                utterance_end=_milliseconds(one, "utterance_end_ms", 100),
            ),
            encoding=encoding.lower(),
            sample_rate=whole(one, "sample_rate", 0),
            channels=whole(one, "channels", 1),
            vad_events=flag(one, "vad_events", False),
            punctuate=flag(one, "punctuate", True),
            warnings=tuple(warnings),
        )
        request.decoder(16_000)
    except OptionError as error:
        name = NAMES.get(error.field, error.field)
        raise wrong(name, f"{name}: {error.reason}") from None
    except FormatError as error:
        raise wrong(error.field, str(error)) from None
    return request


def _milliseconds(one: Mapping[str, str], name: str, least: int) -> float | None:
    if one.get(name, "false").lower() == "false":
        return None
    given = whole(one, name, 0)
    if not least <= given <= _MOST_MILLISECONDS:
        raise wrong(name, f"{name}: {given} ms lies outside {least}…{_MOST_MILLISECONDS} ms")
    return given / 1000


def _endpointing(one: Mapping[str, str]) -> float | None:
    if one.get("endpointing", "true").lower() == "true":
        return ListenOptions().endpointing
    return _milliseconds(one, "endpointing", 10)
