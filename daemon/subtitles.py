"""Subtitles that people can read, made of words with times.

A cue has at most so many lines of so many characters; it stays a little after its last word, long enough to be read;
and where the next one follows almost at once it stays until then, because a gap of a few frames flickers.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from streaming.events import Transcript

WIDTHS: Final = (8, 200)
"""Fewest and most characters that a line may be asked to have."""
LINES: Final = (1, 10)
"""Fewest and most lines that a cue may be asked to have."""

_LONGEST_SECONDS: Final = 7.0
"""Seconds that a cue lasts at most (Netflix's timed text style guide)."""
_SHORTEST_SECONDS: Final = 1.0
"""Seconds that a cue stays where it can. A cue that cannot is joined to the next one."""
_LEAST_SECONDS: Final = 0.001
"""Seconds that a cue lasts even where a burst of words gives it no time: the files tell milliseconds, and players leave
out a cue that ends as it begins."""
_LINGER_SECONDS: Final = 0.5
"""Seconds that a cue stays after its last word, because people read more slowly than others speak."""
_READ_CHARACTERS: Final = 17.0
"""Characters a second that a viewer reads (style guides of broadcasters: 15 to 20)."""
_FLICKER_SECONDS: Final = 0.1
"""Seconds. A shorter gap between two cues is seen as a flicker, so it is closed."""
_PAUSE_SECONDS: Final = 1.5
"""Seconds without a word, after which a new cue begins: it must not tell words long before they are said."""
_PAUSE_CHARACTERS: Final = 20
"""A cue is cut at a comma or a stop that stands so many characters further from the middle than another place."""
_STOPS: Final = (",", ";", ":", ".", "?", "!", "、", "。", "，", "？", "！")


@dataclass(frozen=True, slots=True)
class Layout:
    """The room of a cue: ``width`` columns in each of at most ``lines`` lines. Chinese characters fill two."""

    width: int = 42
    lines: int = 2


@dataclass(frozen=True, slots=True)
class Cue:
    """A text that stands on the screen from ``start`` to ``end``, in seconds."""

    start: float
    end: float
    lines: tuple[str, ...]
    speaker: str = ""
    """Who says it; empty where speakers are not told apart."""

    @property
    def text(self) -> str:
        """The lines of the cue."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class _Chunk:
    text: str
    start: float
    end: float
    space: bool
    """Whether a space stands before it: not every language has one."""
    speaker: str | None = None


def cues(finals: Sequence[Transcript], layout: Layout, seconds: float) -> list[Cue]:
    """The subtitles of a recording.

    Args:
        finals: what was heard, in order.
        layout: the room of a cue.
        seconds: where the recording ends; no cue stays beyond.
    """
    parts = [part for final in finals for run in _runs(_words(final, layout)) for part in _parted(run, layout)]
    parts = _joined(parts, layout)
    found: list[Cue] = []
    for place, words in enumerate(parts):
        start = max(words[0].start, found[-1].end if found else 0.0)
        following = parts[place + 1][0].start if place + 1 < len(parts) else None
        end = max(_end(start, words, following, seconds), start + _LEAST_SECONDS)
        found.append(Cue(start, end, _lines(words, layout), words[0].speaker or ""))
    return found


def srt(found: Sequence[Cue]) -> str:
    """The cues as a file of SubRip, in which a speaker stands before the first line of a cue."""
    return "\n".join(
        f"{i}\n{_times(cue, ',')}\n{cue.speaker and cue.speaker + ': '}{cue.text}\n" for i, cue in enumerate(found, 1)
    )


def vtt(found: Sequence[Cue]) -> str:
    """The cues as a file of WebVTT, in which some characters would be read as marks, and a speaker is one."""
    return "\n".join(
        [
            "WEBVTT\n",
            *(f"{_times(cue, '.')}\n{cue.speaker and f'<v {cue.speaker}>'}{_escaped(cue.text)}\n" for cue in found),
        ]
    )


def _words(final: Transcript, layout: Layout) -> list[_Chunk]:
    """The words of a final. A word that is longer than a line becomes several."""
    found: list[_Chunk] = []
    place = 0
    for word in final.words:
        at = final.text.find(word.text, place)
        space = bool(found) and (at < 0 or final.text[place:at] != "")
        place = place if at < 0 else at + len(word.text)
        pieces = list(_pieces(word.text, layout.width))
        each = (word.end - word.start) / max(1, len(pieces))
        for i, piece in enumerate(pieces):
            start = word.start + i * each
            found.append(_Chunk(piece, start, start + each, space and not i, word.called))
    return found


def _pieces(text: str, width: int) -> Iterator[str]:
    piece = ""
    for character in text:
        if piece and _width(piece + character) > width:
            yield piece
            piece = ""
        piece += character
    yield piece


def _runs(words: list[_Chunk]) -> Iterator[list[_Chunk]]:
    """Groups of words of one speaker that have no long pause between two of them."""
    run: list[_Chunk] = []
    for word in words:
        if run and (word.start - run[-1].end > _PAUSE_SECONDS or word.speaker != run[-1].speaker):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _parted(words: list[_Chunk], layout: Layout) -> list[list[_Chunk]]:
    """Groups of words that fit a cue each. A group is cut near its middle until each part fits, so that no cue flashes
    up with a last word alone."""
    if len(words) == 1 or _fits(words, layout):
        return [words]
    whole = _width(_text(words))

    def badness(cut: int) -> float:
        before = _text(words[:cut])
        return abs(_width(before) - whole / 2) - _PAUSE_CHARACTERS * before.endswith(_STOPS)

    cut = min(range(1, len(words)), key=badness)
    return _parted(words[:cut], layout) + _parted(words[cut:], layout)


def _fits(words: Sequence[_Chunk], layout: Layout) -> bool:
    lasts = words[-1].end - words[0].start
    return lasts <= _LONGEST_SECONDS and len(_filled(words, layout.width)) <= layout.lines


def _joined(parts: list[list[_Chunk]], layout: Layout) -> list[list[_Chunk]]:
    """The groups, where one that would be gone before it can be read is joined to the one after or before it."""
    found: list[list[_Chunk]] = []
    for part in parts:
        if found:
            last = found[-1]
            both = [*last, replace(part[0], space=True), *part[1:]]
            close = part[0].start - last[-1].end <= _PAUSE_SECONDS and part[0].speaker == last[-1].speaker
            hurried = part[0].start - last[0].start < _SHORTEST_SECONDS or part[-1].end - part[0].start < 0.3
            if close and hurried and _fits(both, layout):
                found[-1] = both
                continue
        found.append(part)
    return found


def _end(start: float, words: Sequence[_Chunk], following: float | None, seconds: float) -> float:
    """The time at which a cue leaves: it has lingered and can have been read, the next one comes, or the recording
    ends."""
    last = max(words[-1].end, start)
    read = start + max(_SHORTEST_SECONDS, _width(_text(words)) / _READ_CHARACTERS)
    end = max(last, min(max(last + _LINGER_SECONDS, read), max(last, start + _LONGEST_SECONDS)))
    if following is None:
        return max(last, min(end, seconds)) if seconds > 0 else end
    following = max(following, start)
    return following if end > following - _FLICKER_SECONDS else end


def _lines(words: Sequence[_Chunk], layout: Layout) -> tuple[str, ...]:
    """The words in as few lines as hold them, as even as can be."""
    count = len(_filled(words, layout.width))
    for width in range(_width(_text(words)) // count, layout.width + 1):
        lines = _filled(words, width)
        if len(lines) <= count and all(_width(_text(line)) <= layout.width for line in lines):
            return tuple(_text(line) for line in lines)
    return tuple(_text(line) for line in _filled(words, layout.width))


def _filled(words: Sequence[_Chunk], width: int) -> list[list[_Chunk]]:
    """The words in lines, each as full as it gets."""
    lines: list[list[_Chunk]] = [[]]
    for word in words:
        if lines[-1] and _width(_text([*lines[-1], word])) > width:
            lines.append([])
        lines[-1].append(word)
    return lines


def _text(words: Sequence[_Chunk]) -> str:
    return "".join(f" {word.text}" if word.space and i else word.text for i, word in enumerate(words))


def _width(text: str) -> int:
    """The columns that a text fills."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _times(cue: Cue, point: str) -> str:
    return f"{_stamp(cue.start, point)} --> {_stamp(cue.end, point)}"


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"
