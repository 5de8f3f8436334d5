"""The times of characters, computed from those of words, in the shapes of ElevenLabs' answers and of its sockets."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from codec.events import PieceMark
from codec.work import Work
from daemon.spoken_file import FileRequest, Frame, Part

Timed = tuple[str, float, float]
"""A character, and the seconds at which its sound begins and ends."""


def characters(text: str, mark: PieceMark, begin: int, start: float) -> Iterator[Timed]:
    """The characters of a piece with their times. The characters of a word share its time evenly; those between two
    words share the time between them, and those after the last word the time until the piece ends.

    Args:
        text: the session's text from the character ``begin`` to the end of the piece.
        mark: the piece's times and those of its words.
        begin: the index in the session's text of the first character of ``text``.
        start: the second at which the previous piece ended.
    """
    place, at = begin, start
    for word in mark.words:
        yield from _shared(text[place - begin : word.start_char - begin], at, word.start)
        yield from _shared(text[word.start_char - begin : word.end_char - begin], word.start, word.end)
        place, at = word.end_char, word.end
    yield from _shared(text[place - begin :], at, mark.end)


def _shared(text: str, start: float, end: float) -> Iterator[Timed]:
    for number, character in enumerate(text):
        share = (end - start) / len(text)
        yield character, start + number * share, start + (number + 1) * share


def in_seconds(timed: Sequence[Timed]) -> dict[str, Any]:
    """The times in the shape of answers to requests: seconds since the sound began."""
    return {
        "characters": [one for one, _, _ in timed],
        "character_start_times_seconds": [round(start, 3) for _, start, _ in timed],
        "character_end_times_seconds": [round(end, 3) for _, _, end in timed],
    }


def in_milliseconds(timed: Sequence[Timed], since: float) -> dict[str, Any]:
    """The times in the shape of the sockets' messages: milliseconds since the second ``since``, at which the previous
    piece ended."""
    starts = [round(1000 * (start - since)) for _, start, _ in timed]
    ends = [round(1000 * (end - since)) for _, _, end in timed]
    durations = [end - start for start, end in zip(starts, ends, strict=True)]
    return {"chars": [one for one, _, _ in timed], "charStartTimesMs": starts, "charDurationsMs": durations}


class AlignedLines(Frame):
    """An answer with a JSON object on each line: sound as soon as it is made, and the times of a sentence's characters
    once it is spoken."""

    media_type = "application/json"

    def __init__(self, request: FileRequest, work: Work) -> None:
        super().__init__(request, work)
        self._place, self._at = 0, 0.0

    def part(self, part: Part) -> bytes:
        """The line that is sent of ``part``, if any."""
        return self._object(part, None) if isinstance(part, bytes) else self._object(b"", self._timed(part))

    def _timed(self, mark: PieceMark) -> list[Timed]:
        text = self._request.text[self._place : mark.end_char]
        timed = list(characters(text, mark, self._place, self._at))
        self._place, self._at = mark.end_char, mark.end
        return timed

    def _object(self, audio: bytes, timed: Sequence[Timed] | None) -> bytes:
        if not audio and not timed:
            return b""
        told = None if timed is None else in_seconds(timed)
        fields = {"audio_base64": base64.b64encode(audio).decode(), "alignment": told, "normalized_alignment": told}
        return msgspec.json.encode(fields) + b"\n"


class Aligned(AlignedLines):
    """One such object with everything, which is kept until the end: ``max_text_characters`` of text bound it."""

    def __init__(self, request: FileRequest, work: Work) -> None:
        super().__init__(request, work)
        self._audio, self._all = bytearray(), list[Timed]()

    def part(self, part: Part) -> bytes:
        """Nothing is sent before the end."""
        if isinstance(part, bytes):
            self._audio += part
        else:
            self._all += self._timed(part)
        return b""

    def end(self) -> bytes:
        """The whole answer, which is sent at the end."""
        return self._object(bytes(self._audio), self._all)
