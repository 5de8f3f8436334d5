"""A heard file in OpenAI's shapes: json, text, srt, vtt, verbose_json."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streaming.events import Event, Transcript, Word
from streaming.prompt import LANGUAGES

FORMATS: Final = ("json", "text", "srt", "vtt", "verbose_json")

_CUE_SECONDS: Final = 7.0
_CUE_CHARACTERS: Final = 84
"""Two lines of 42, the usual limit of subtitles."""
_PAUSE_CHARACTERS: Final = 20
"""So much further from the middle a cue is cut where a comma or a stop stands."""


@dataclass(slots=True)
class FileTranscript:
    """What was heard so far. ``duration``: seconds of audio."""

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
        """All words."""
        return [word for final in self.finals for word in final.words]

    @property
    def language(self) -> str | None:
        """ISO 639-1 of the first final that has one."""
        return next((final.language for final in self.finals if final.language), None)

    @property
    def usage(self) -> dict[str, Any]:
        """OpenAI's usage by duration."""
        return {"type": "duration", "seconds": round(self.duration, 3)}

    def json(self) -> dict[str, Any]:
        """``response_format=json``."""
        languages = [{"code": code} for code in dict.fromkeys(f.language for f in self.finals) if code]
        return {"text": self.text, "usage": self.usage, "languages": languages}

    def verbose(self, *, words: bool) -> dict[str, Any]:
        """``response_format=verbose_json``. The language is spelled out, as OpenAI does."""
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

    def srt(self) -> str:
        """SubRip."""
        cues = [f"{i}\n{_stamp(c[0].start, ',')} --> {_stamp(c[-1].end, ',')}\n{_joined(c)}\n" for i, c in self._cues()]
        return "\n".join(cues)

    def vtt(self) -> str:
        """WebVTT."""
        cues = [f"{_stamp(c[0].start, '.')} --> {_stamp(c[-1].end, '.')}\n{_joined(c)}\n" for _, c in self._cues()]
        return "\n".join(["WEBVTT\n", *cues])

    def _cues(self) -> list[tuple[int, Sequence[Word]]]:
        return list(enumerate((cue for final in self.finals for cue in _parted(final.words)), 1))


def _word(word: Word) -> dict[str, Any]:
    entry: dict[str, Any] = {"word": word.text, "start": word.start, "end": word.end, "confidence": word.confidence}
    return {**entry, "approximate": True} if word.approximate else entry


def _segment(number: int, final: Transcript) -> dict[str, Any]:
    """OpenAI's required fields. Decoding is greedy, hence temperature 0; token ids are not told; what voice activity
    did not let through never becomes a segment, hence no_speech_prob 0."""
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


def _parted(words: Sequence[Word]) -> list[Sequence[Word]]:
    """Words to cues: cut near the middle until each fits, so that none flashes up with a last word alone."""
    if not words:
        return []
    whole = len(_joined(words))
    if len(words) == 1 or (words[-1].end - words[0].start <= _CUE_SECONDS and whole <= _CUE_CHARACTERS):
        return [words]

    def badness(cut: int) -> float:
        before = _joined(words[:cut])
        return abs(len(before) - whole / 2) - _PAUSE_CHARACTERS * before.endswith((",", ";", ":", ".", "?", "!"))

    cut = min(range(1, len(words)), key=badness)
    return _parted(words[:cut]) + _parted(words[cut:])


def _joined(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"
