"""Captions on a terminal: committed words plain, unstable ones dim, finished segments scrolled up.

Where nothing can be redrawn (a pipe, a log, TERM=dumb) every change is a line of its own::

       1.2 ~ the harbour lights | were how
       2.9 = the harbour lights were out

``~`` is unfinished, with ``|`` between committed and unstable words; ``=`` is final. The number is the time on the
session's clock.
"""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from .events import Event, Fault, Metadata, Results, SpeakerMerged, SpeakerNamed
from .resume import Disconnected, Reconnected

_HARMLESS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\N{REPLACEMENT CHARACTER}")
"""Control characters, which a daemon must not send to anybody's terminal."""


def harmless(text: str) -> str:
    """``text`` without its control characters."""
    return text.translate(_HARMLESS)


def letter(speaker: int) -> str:
    """What people call ``speaker``: A … Z, then AA, AB …"""
    return (letter(speaker // 26 - 1) if speaker >= 26 else "") + chr(ord("A") + speaker % 26)


def told(results: Results) -> str:
    """The text of a final, with each speaker's name or letter before what they say where that is known."""
    text, place = "", 0
    last: int | None = None
    for word in results.words:
        found = max(results.text.find(word.text, place), place)
        text += results.text[place:found]
        if word.speaker is not None and word.speaker != last:
            text += f"{word.speaker_name or letter(word.speaker)}: "
        last, place = word.speaker, found + len(word.text)
        text += results.text[found:place]
    return text + results.text[place:]


def split(results: Results) -> tuple[str, str]:
    """The committed and the unstable part of a transcript; the two joined are the whole text, spaces included."""
    if results.is_final:
        return told(results), ""
    position = 0
    for word in results.words[: results.stable_words]:
        found = results.text.find(word.text, position)
        if found < 0:
            break
        position = found + len(word.text)
    return results.text[:position], results.text[position:]


def redraws(console: Console) -> bool:
    """Whether captions on ``console`` can change in place: on a terminal that moves its cursor."""
    return console.is_terminal and not console.is_dumb_terminal


class Captions:
    """Writes events of a session to ``console``. It is a context manager, after which the terminal is as it was."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._redraws = redraws(console)
        self._live: Live | None = None
        self._last = ""

    def show(self, event: Event | Disconnected | Reconnected) -> None:
        """Bring one event to the screen. Events without text of their own change nothing."""
        match event:
            case Results():
                self._results(event)
            case Disconnected():
                self.note(f"connection lost ({event.reason}); attempt {event.attempt} in {event.wait:g} s")
            case Reconnected():
                lost = f", {event.missed:.1f} s of audio lost" if event.missed else ""
                self.note(f"connected again, {event.resent:.1f} s of audio sent again{lost}")
            case SpeakerMerged():
                self.note(f"{letter(event.speaker)} is {letter(event.into)}")
            case SpeakerNamed():
                self.note(f"{letter(event.speaker)} is {harmless(event.name)}")
            case Fault():
                self.note(f"the daemon says: {event.message}")
            case Metadata():
                for warning in event.warnings:
                    self.note(f"the daemon warns: {warning}")
            case _:
                pass

    def note(self, text: str) -> None:
        """Write a remark beside the captions, on a line of its own."""
        self._console.print(Text(f"[{text}]", style="yellow"), soft_wrap=not self._redraws)

    def __enter__(self) -> Self:
        if self._redraws:
            # An open segment of 24 s may be taller than a small window. Only its end matters then: _open_segment cuts
            # it so, and ``crop`` cuts the rest. Nothing refreshes by itself, so no thread and no work is needed between
            # events.
            self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _results(self, results: Results) -> None:
        committed, unstable = (harmless(part) for part in split(results))
        if self._live is None:
            self._line(results, committed, unstable)
        elif results.is_final:
            self._live.update(Text(""), refresh=True)
            if results.text:
                self._console.print(Text(committed))
        else:
            self._live.update(self._open_segment(committed, unstable), refresh=True)

    def _line(self, results: Results, committed: str, unstable: str) -> None:
        mark = "=" if results.is_final else "~"
        text = committed + (
            f"{' |' if committed else '|'}{unstable if committed else ' ' + unstable}" if unstable else ""
        )
        if text and (results.is_final or text != self._last):
            time = results.start + results.duration
            self._console.print(Text(f"{time:7.1f} {mark} {text}"), soft_wrap=True)
        self._last = "" if results.is_final else text

    def _open_segment(self, committed: str, unstable: str) -> Text:
        """The last lines of the open segment that fit the window."""
        text = Text.assemble(committed, (unstable, "dim"))
        lines = text.wrap(self._console, max(self._console.width, 1))
        room = max(self._console.height - 1, 1)
        return Text("\n").join(list(lines)[-room:])
