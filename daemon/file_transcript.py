"""What was heard of a file, in OpenAI's shapes: json, text, srt, vtt, verbose_json, diarized_json."""

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from daemon import subtitles
from daemon.subtitles import Layout
from streaming.events import Event, Transcript, Word, letter
from streaming.prompt import LANGUAGES

_USUAL: Final = Layout()

FORMATS: Final = ("json", "text", "srt", "vtt", "verbose_json", "diarized_json")


@dataclass(slots=True)
class FileTranscript:
    """What was heard of a file so far. ``duration`` is in seconds of audio."""

    finals: list[Transcript] = field(default_factory=list[Transcript])
    duration: float = 0.0

    def take(self, events: Sequence[Event]) -> list[Transcript]:
        """Keep the finals with words among ``events`` and return those."""
        new = [event for event in events if isinstance(event, Transcript) and event.is_final and event.text]
        self.finals += new
        return new

    @property
    def text(self) -> str:
        """The finals' texts, joined by one space."""
        return " ".join(final.text for final in self.finals)

    @property
    def words(self) -> list[Word]:
        """All words of the finals."""
        return [word for final in self.finals for word in final.words]

    @property
    def language(self) -> str | None:
        """The language of the first final that has one (ISO 639-1)."""
        return next((final.language for final in self.finals if final.language), None)

    @property
    def language_confidence(self) -> float:
        """The mean confidence of the finals in that language, 0…1; 0 where none was heard."""
        sure = [final.confidence for final in self.finals if final.language == self.language]
        return round(sum(sure) / len(sure), 4) if self.language and sure else 0.0

    @property
    def usage(self) -> dict[str, Any]:
        """OpenAI's object of usage, which here counts seconds."""
        return {"type": "duration", "seconds": round(self.duration, 3)}

    def json(self, *, words: bool = False) -> dict[str, Any]:
        """The answer for ``response_format=json``. OpenAI's has no words, but its SDKs read them here where they asked
        for them."""
        languages = [{"code": code} for code in dict.fromkeys(f.language for f in self.finals) if code]
        body: dict[str, Any] = {"text": self.text, "usage": self.usage, "languages": languages}
        if words:
            body |= {"duration": round(self.duration, 3), "words": [_word(word) for word in self.words]}
        return body

    @staticmethod
    def timed(final: Transcript) -> dict[str, Any]:
        """The times of a segment and of each of its words, as keys of ours on an event of a stream."""
        return {"start": final.start, "end": final.end, "words": [_word(word) for word in final.words]}

    def verbose(self, *, words: bool) -> dict[str, Any]:
        """The answer for ``response_format=verbose_json``. The language is spelled out, as OpenAI does."""
        body: dict[str, Any] = {
            "task": "transcribe",
            "language": LANGUAGES.get(self.language, self.language).lower() if self.language else "",
            "duration": round(self.duration, 3),
            "text": self.text,
            "segments": [_segment(i, final) for i, final in enumerate(self.finals)],
            "usage": self.usage,
        }
        if words:
            body["words"] = [_word(word) for word in self.words]
        return body

    def diarized(self) -> dict[str, Any]:
        """The answer for ``response_format=diarized_json``."""
        return {
            "task": "transcribe",
            "duration": round(self.duration, 3),
            "text": self.text,
            "segments": self.segments(self.finals),
            "usage": self.usage,
        }

    @staticmethod
    def segments(finals: Sequence[Transcript], before: int = 0) -> list[dict[str, Any]]:
        """What each speaker says in one breath, as OpenAI's segments and events; ``before``: how many came before."""
        parts = (part for final in finals for part in spoken_by(final))
        return [
            {
                "type": "transcript.text.segment",
                "id": f"seg_{number:03}",
                "start": words[0].start,
                "end": words[-1].end,
                "speaker": words[0].called or letter(0),
                "text": text,
            }
            for number, (words, text) in enumerate(parts, before)
        ]

    def srt(self, layout: Layout = _USUAL) -> str:
        """The answer for ``response_format=srt``."""
        return subtitles.srt(subtitles.cues(self.finals, layout, self.duration))

    def vtt(self, layout: Layout = _USUAL) -> str:
        """The answer for ``response_format=vtt``."""
        return subtitles.vtt(subtitles.cues(self.finals, layout, self.duration))


def spoken_by(final: Transcript) -> Iterator[tuple[list[Word], str]]:
    """The words of ``final`` that follow each other and are one speaker's, with their part of its text."""
    begin, words = 0, list[Word]()
    at = 0
    for word in final.words:
        found = max(final.text.find(word.text, at), at)
        if words and word.called != words[-1].called:
            yield words, final.text[begin:found].strip()
            begin, words = found, []
        words.append(word)
        at = found + len(word.text)
    if words:
        yield words, final.text[begin:].strip()


def _word(word: Word) -> dict[str, Any]:
    entry: dict[str, Any] = {"word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
    if word.speaker is not None:
        entry |= {"speaker": letter(word.speaker), "speaker_confidence": word.speaker_confidence}
        entry |= {"speaker_name": word.speaker_name} if word.speaker_name else {}
    return {**entry, "approximate": True} if word.approximate else entry


def _segment(number: int, final: Transcript) -> dict[str, Any]:
    """A segment with the fields that OpenAI requires. Decoding is greedy, hence temperature 0; token ids are not told;
    what voice activity did not let through never becomes a segment, hence no_speech_prob 0."""
    text = final.text.encode()
    return {
        "id": number,
        "seek": round(final.start * 100),
        "start": final.start,
        "end": final.end,
        "text": final.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": round(math.log(max(final.confidence, 1e-6)), 4),
        "compression_ratio": round(len(text) / len(zlib.compress(text)), 4),
        "no_speech_prob": 0.0,
    }
