"""A text that is spoken, and which part of it has been heard by when. A person who interrupts has heard that part
only."""

from dataclasses import dataclass, field
from typing import Final

_CHARACTERS_A_SECOND: Final = 15.0
"""Characters a second, for a sentence that was cut before its own pace was known: English read aloud has about 15."""


@dataclass(slots=True)
class SpokenText:
    """A text and its sound. Times are seconds of that sound."""

    text: str = ""
    seconds: float = 0.0
    """Seconds of sound that were sent."""
    paces: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])
    """The start and end of each sentence, and the place of its last character in ``text``."""

    def paced(self, last: int) -> None:
        """Say that a sentence was spoken up to here. ``last`` is the place of its last character."""
        self.paces.append((self.paces[-1][1] if self.paces else 0.0, self.seconds, last))

    def played(self, seconds: float) -> str:
        """The text whose sound is over by ``seconds``; a word that was cut does not count."""
        at, place = 0.0, 0
        for start, end, last in self.paces:
            if seconds < end:
                share = max(0.0, seconds - start) / max(end - start, 1e-6)
                return self._to_word(place + int(share * (last - place)))
            at, place = end, last
        if seconds >= self.seconds and self.paces and self.paces[-1][2] >= len(self.text.rstrip()):
            return self.text
        return self._to_word(place + int(max(0.0, seconds - at) * _CHARACTERS_A_SECOND))

    def _to_word(self, place: int) -> str:
        if place >= len(self.text):
            return self.text
        if self.text[place].isspace() or place == 0:
            return self.text[:place].rstrip()
        return self.text[:place].rpartition(" ")[0].rstrip()
