"""What a person says in one go: its text, and how much of it the client was told so far."""

from dataclasses import dataclass, field

from daemon.openai.realtime import server_events as wire
from streaming.events import Transcript


@dataclass(slots=True)
class Turn:
    """What a person says in one go, as far as it is heard."""

    item_id: str
    began: float | None = None
    """The second of its span at which voice began."""
    announced: bool = False
    """Whether the client was told that it began."""
    texts: list[str] = field(default_factory=list[str])
    words: list[wire.TimedWord] = field(default_factory=list[wire.TimedWord])
    languages: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    told: int = 0
    """The number of words of the open segment that went out in deltas."""
    last: Transcript | None = None
    """The newest final of the turn."""

    @property
    def transcript(self) -> str:
        """The whole text."""
        return " ".join(self.texts)

    def delta(self, event: Transcript, words: int) -> str:
        """The text of the first ``words`` words, as far as it was not told before; from now on it counts as told."""
        whole = words == len(event.words) and event.is_final
        if words < self.told + (not whole):  # A final of no more words still brings the last mark.
            return ""
        begin = event.end_of(self.told)
        end = len(event.text) if whole else event.end_of(words)
        space = " " if self.texts and not self.told else ""
        self.told = words
        rest = event.text[begin:end]
        return space + rest if rest else ""

    def extend(self, final: Transcript, offset: float) -> None:
        """Add the final of a segment. ``offset`` is added to its times, in seconds."""
        self.told, self.last = 0, final
        self.seconds += final.end - final.start
        if not final.text:
            return
        self.texts.append(final.text)
        for word in final.words:
            self.words.append(wire.TimedWord(word.text, round(offset + word.start, 3), round(offset + word.end, 3)))
        if final.language and final.language not in self.languages:
            self.languages.append(final.language)
