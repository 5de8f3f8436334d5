"""The daemon's answer about a whole recording, as other programs want it: a JSON object for a file, and what subtitles
are made of."""

from collections.abc import Mapping
from typing import Any, Final

from streaming.events import Transcript, Word, speaker_called
from streaming.prompt import LANGUAGES

_NAMES: Final = ("word", "start", "end", "confidence", "approximate", "speaker", "speaker_confidence", "speaker_name")
"""What is told of a word."""


def file_transcript(file: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """``file text language duration words segments``, made from OpenAI's ``verbose_json`` as the daemon writes it.

    Times in seconds from the beginning; ``language`` ISO 639-1, None where nothing was said. A word has ``word start
    end confidence``, ``approximate: true`` where its times are shares of its segment's, and ``speaker
    speaker_confidence`` where speakers are told apart, ``speaker_name`` where who speaks is known; a segment, one for
    each final, ``start end text``.
    """
    words = [{name: word[name] for name in _NAMES if name in word} for word in answer.get("words") or ()]
    segments = [
        {"start": segment["start"], "end": segment["end"], "text": str(segment["text"]).strip()}
        for segment in answer.get("segments") or ()
    ]
    # OpenAI's shape spells the language out.
    name = str(answer.get("language") or "").lower()
    code = next((code for code, spelled in LANGUAGES.items() if spelled.lower() == name), name or None)
    return {
        "file": file,
        "text": answer["text"],
        "language": code,
        "duration": answer.get("duration", 0.0),
        "words": words,
        "segments": segments,
    }


def finals(answer: Mapping[str, Any]) -> list[Transcript]:
    """What was said, segment by segment with its words, from OpenAI's ``verbose_json`` as the daemon writes it.

    The answer lists the words of all segments together: each segment takes as many as its letters need.
    """
    words = [
        Word(
            str(word["word"]),
            word["start"],
            word["end"],
            word.get("confidence", 1.0),
            speaker=speaker_called(word.get("speaker")),
            speaker_confidence=word.get("speaker_confidence"),
            speaker_name=word.get("speaker_name"),
        )
        for word in answer.get("words") or ()
    ]
    found: list[Transcript] = []
    for segment in answer.get("segments") or ():
        text = str(segment["text"]).strip()
        letters, taken = _letters(text), list[Word]()
        while words and letters > 0:
            letters -= _letters(words[0].text)
            taken.append(words.pop(0))
        said = tuple(taken) or (Word(text, segment["start"], segment["end"], 1.0, approximate=True),)
        found.append(Transcript(segment["start"], segment["end"], text, said, len(said), None, is_final=True))
    return found


def _letters(text: str) -> int:
    return len("".join(text.split()))
