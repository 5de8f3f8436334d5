"""Lines to be practised, and the choice among takes of one of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.speech.contour import yes_or_no
from training.speech.script import Script
from training.tts.config import PracticeTraining
from training.tts.judges import Judgements


@dataclass(frozen=True)
class Line:
    """What is said: as it is written, the tokens of its sounds, and whether it ends by asking for yes or no."""

    text: str
    tokens: list[int]
    asks: bool


def asks(sounds: str) -> bool:
    """Tell by its sounds whether a line ends by asking for yes or no."""
    return sounds.endswith("?") and yes_or_no(re.split("[.!?…]", sounds[:-1])[-1])


def lines_of_script(script: Script, tokenizer: Tokenizer, most: int) -> list[Line]:
    """Give the lines of a script that have `most` tokens at most."""
    sounds = [script.sounds(i) for i in range(len(script.texts))]
    tokens = [one.ids for one in tokenizer.encode_batch([f" {line}" for line in sounds])]
    made = (Line(text, ids, asks(line)) for text, ids, line in zip(script.texts, tokens, sounds, strict=True))
    return [line for line in made if 1 <= len(line.tokens) <= most]


def weights(lines: Sequence[Line], t: PracticeTraining) -> NDArray[np.float64]:
    """Give how often each line is drawn; the sum is 1."""
    often = [t.often if line.asks or len(line.text.split()) <= t.short_words else 1.0 for line in lines]
    return np.array(often) / sum(often)


def choose(frames: NDArray[np.int64], found: Judgements, asking: bool, t: PracticeTraining) -> int | None:
    """Give the place of a line's best take; None where none of them should be learnt. frames: of each take; asking:
    whether the line asks for yes or no."""
    middle = float(np.median(frames))
    near = np.flatnonzero(np.abs(frames - middle) <= max(t.length_frames, t.length * middle))
    if len(near) < t.least_takes:
        return None
    natural, heard, rise = found.at(near)
    score = t.natural_weight * natural + t.heard_weight * np.maximum(heard - heard.max(), -t.heard_most)
    if asking:
        # Where nobody can tell the pitch, it counts as falling.
        rise = np.nan_to_num(rise, nan=t.rise_range[0])
        score += t.rise_weight * rise.clip(*t.rise_range)
    best = int(score.argmax())
    falls = asking and rise[best] <= t.least_rise
    return None if falls or heard[best] < heard.max() - t.heard_loss else int(near[best])
