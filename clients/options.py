"""What a client declares when it opens a session on ``/v1/listen``."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlencode

from .events import ListenError

Encoding = Literal["linear16", "float32", "mulaw", "alaw"]

BYTES_PER_SAMPLE: dict[str, int] = {"linear16": 2, "float32": 4, "mulaw": 1, "alaw": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What a session declares. None leaves a choice to the daemon.

    Attributes:
        encoding, sample_rate, channels: the shape of the audio that will be sent; channels are interleaved.
        endpointing: silence in milliseconds that closes an utterance, "turn" for one that ends by what was said, False
            for never.
        utterance_end_ms: gap after a word, in milliseconds, that is reported as ``UtteranceEnd``.
        keyterms: names and words to listen for.
        speakers: whether the words of finals tell who says them.

    Raises:
        ListenError: there is no such encoding; the keyterms are one text.
    """

    model: str | None = None
    language: str | None = None
    encoding: Encoding = "linear16"
    sample_rate: int = 16000
    channels: int = 1
    interim_results: bool = True
    endpointing: int | Literal["turn", False] | None = None
    utterance_end_ms: int | None = None
    vad_events: bool = False
    keyterms: tuple[str, ...] = ()
    speakers: bool = False

    def __post_init__(self) -> None:
        if self.encoding not in BYTES_PER_SAMPLE:
            raise ListenError(f"encoding: {self.encoding!r} is none of {', '.join(BYTES_PER_SAMPLE)}")
        several("keyterms", self.keyterms)

    @property
    def bytes_per_second(self) -> int:
        """Wire bytes of one second of audio."""
        return BYTES_PER_SAMPLE[self.encoding] * self.sample_rate * self.channels

    def query(self) -> str:
        """The options as a query string.

        Raises:
            ListenError: as :func:`sendable`.
        """
        pairs: list[tuple[str, str]] = [
            ("encoding", self.encoding),
            ("sample_rate", str(self.sample_rate)),
            ("channels", str(self.channels)),
            ("interim_results", "true" if self.interim_results else "false"),
        ]
        if self.model is not None:
            pairs.append(("model", self.model))
        if self.language is not None:
            pairs.append(("language", self.language))
        if self.endpointing is not None:
            pairs.append(("endpointing", "false" if self.endpointing is False else str(self.endpointing)))
        if self.utterance_end_ms is not None:
            pairs.append(("utterance_end_ms", str(self.utterance_end_ms)))
        if self.vad_events:
            pairs.append(("vad_events", "true"))
        if self.speakers:
            pairs += [("diarize", "true"), ("speaker_merged", "true")]
        pairs.extend(("keyterm", term) for term in self.keyterms)
        return query_string(pairs)


def several(name: str, texts: Iterable[str]) -> Iterable[str]:
    """Give back ``texts``, the argument called ``name``.

    Raises:
        ListenError: it is one text, whose letters would be taken for texts.
    """
    if isinstance(texts, str):
        raise ListenError(f"{name}: a list of texts is wanted, not {texts[:80]!r} alone")
    return texts


def query_string(pairs: Iterable[tuple[str, str]]) -> str:
    """Options as a query string.

    Raises:
        ListenError: as :func:`sendable`.
    """
    return urlencode([(name, sendable(name, value)) for name, value in pairs])


def sendable(name: str, text: str) -> str:
    """``text``, which can be sent.

    Raises:
        ListenError: it holds a lone surrogate (what Python makes of bytes that are not UTF-8), which no UTF-8 has;
            ``name`` says where.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ListenError(f"{name}: {text[error.start : error.end]!a} at {error.start} is no character") from None
    return text
