"""A text that is spoken, and which part of it is heard by when: what of it somebody heard who interrupts."""

from dataclasses import dataclass, field
from typing import Final

_CHARACTERS_A_SECOND: Final = 15.0
"""Of speech, where a sentence was cut before it told its own pace."""


@dataclass(slots=True)
class SpokenText:
    """A text and its sound; times are seconds of that sound."""

    text: str = ""
    seconds: float = 0.0
    """Sound sent."""
    paces: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])
    """Of each sentence: start, end, and the place of its last character in ``text``."""

    def paced(self, last: int) -> None:
        """A sentence was spoken up to here; ``last``: the place of its last character."""
        self.paces.append((self.paces[-1][1] if self.paces else 0.0, self.seconds, last))

    def heard(self, seconds: float) -> str:
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
