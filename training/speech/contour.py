"""How the pitch of what Kokoro says is bent. Questions to be answered by yes or no rise, which its voices never let
them, and before a comma the pitch falls less than before a full stop.

Contract: `bends` finds by a line's sounds where it is bent; `bent` takes Kokoro's pitch in Hz [B, 2 F], two values a
frame.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from codec.sounds.line import MARKS
from training.speech.sounds import SILENT, VOCABULARY

_ASKING = frozenset(
    "wʌt wʌts wʌɾ wʌTl hu huz hul hud hum hus wɪʧ wɛɹ wɛɹz wɛɹd wɛn wɛnz wI wIz hW hWz hWd hWɹ wʌɹ".split()
)
"""Question words without their stress. What they ask falls."""
# A question word stands among so many words at the beginning of what it asks.
_FIRST_WORDS = 3
_OR = "ɔɹ"
_VOICELESS = frozenset(VOCABULARY[c] for c in "ptkfθsʃʧh")
_STRESSED = VOCABULARY["ˈ"], VOCABULARY["ˌ"]
_MARKS = frozenset(VOCABULARY[c] for c in MARKS)
_HELD = frozenset(",;:—")
# Semitones. What rises begins so much below the voice's usual pitch and ends so much above it, drawn between the two;
# what is held before a comma ends so much above where it would have fallen.
_LOW, _HIGH, _HELD_BY = -1.5, (4.5, 8.5), 2.5
# Kokoro gives a pitch below so many Hz where there is no voice.
_VOICED = 40.0


class Bend(NamedTuple):
    """A stretch from the token `begin` to before the token `end`. rises: it rises to a high pitch, else it is held."""

    begin: int
    end: int
    rises: bool


def yes_or_no(sentence: str) -> bool:
    """Whether the sounds before a question mark ask for yes or no."""
    words = sentence.replace("ˈ", "").replace("ˌ", "").split()
    return bool(words) and _ASKING.isdisjoint(words[:_FIRST_WORDS]) and _OR not in words


def bends(sounds: str, tokens: Sequence[int]) -> list[Bend]:
    """Find the bends of a line, given its American sounds and the tokens that are said, which have the same marks."""
    found: list[Bend] = []
    sentence, begin, at = "", 0, [i for i, token in enumerate(tokens) if token in _MARKS]
    marks = [c for c in sounds if c in MARKS]
    clauses = "".join("\n" if c in MARKS else c for c in sounds).split("\n")
    for mark, place, clause in zip(marks, at, clauses, strict=False):
        sentence = f"{sentence} {clause}"
        rises = mark == "?" and yes_or_no(sentence)
        if rises or mark in _HELD:
            end = place
            while end > begin and (tokens[end - 1] in _VOICELESS or tokens[end - 1] in SILENT):
                end -= 1
            start = next((i for s in _STRESSED for i in range(end - 1, begin - 1, -1) if tokens[i] == s), None)
            if start is not None and start < end - 1:
                found.append(Bend(start, end, rises))
        if mark not in _HELD:
            sentence = ""
        begin = place + 1
    return found


def ramps(lines: Sequence[Sequence[Bend]], durations: Tensor, frames: int) -> tuple[Tensor, Tensor]:
    """Give the place along what rises and along what is held, from 0 to 1, and -1 elsewhere: float32 [B, 2 · frames]
    each. durations: int64 [B, T], pads counted."""
    made = torch.full((2, len(lines), 2 * frames), -1.0)
    # Counted without pads, a token begins where the one with the pad before it ends.
    starts = durations.cumsum(1) * 2
    for row, found in enumerate(lines):
        for begin, end, rises in found:
            low, high = int(starts[row, begin]), int(starts[row, end])
            made[0 if rises else 1, row, low:high] = torch.linspace(0, 1, high - low)
    return made[0], made[1]


def bent(pitch: Tensor, rising: Tensor, held: Tensor) -> Tensor:
    """Give the pitch with the bends of `ramps`, on its device."""
    voiced, rise = pitch > _VOICED, rising >= 0
    nothing = torch.full_like(pitch, torch.nan)
    level = torch.where(voiced & ~rise, pitch, nothing).nanmedian(1).values
    level = torch.where(level.isnan(), torch.where(voiced, pitch, nothing).nanmedian(1).values, level)[:, None]
    high = torch.empty_like(level).uniform_(*_HIGH)
    risen = level * 2 ** ((_LOW + (high - _LOW) * rising) / 12)
    made = torch.where(voiced & rise, risen, pitch)
    return torch.where(voiced & (held >= 0), made * 2 ** (_HELD_BY * held / 12), made)
