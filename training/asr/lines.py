"""Lines: text that the decoder reads without any sound, so that it is a language model too.

A line stands between the chat template's tokens as a transcript does, the audio's rows left out. What is learnt from it
costs no weight: the same decoder then tells of several texts that fit the sound which one people say.
"""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from training.asr.prompt import Prompt
from training.asr.sentences import templated
from training.transcript import transcript

_TRIES = 20  # sentences drawn until one fits


class Lines:
    """Batches of `count` lines, `width` ids each."""

    def __init__(self, prompt: Prompt, sentences: Sequence[str], count: int, width: int, rng: random.Random) -> None:
        """Raises ValueError: no sentences, or no room for any text."""
        self._head = [*prompt.prefix(), *prompt.suffix, *prompt.english]
        if count and not sentences:
            raise ValueError("lines: there are no sentences to draw from")
        if count and width < len(self._head) + 8:
            raise ValueError(f"line_width: {width} ids, but the template alone has {len(self._head)}")
        self._prompt, self._sentences, self._rng = prompt, sentences, rng
        self._count, self._width = count, width

    def _words(self) -> list[str]:
        """What somebody might say at a stretch: a sentence, parts of one or two, or a template's."""
        rng, draw = self._rng, self._rng.random()
        words = rng.choice(self._sentences).split()
        if draw < 0.1:
            return transcript(templated(rng)).split()
        if draw < 0.25:
            return words + rng.choice(self._sentences).split()
        if draw < 0.45 and len(words) > 3:
            start = rng.randrange(len(words) - 2)
            return words[start : rng.randint(start + 2, len(words))]
        return words

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(ids [count, width], mask [count, width]: 1 where the id is to be predicted, text and end alone)."""
        ids = np.full((self._count, self._width), self._prompt.pad, np.int64)
        mask = np.zeros((self._count, self._width), np.float32)
        start = len(self._head)
        room = self._width - start - 1
        for row in range(self._count):
            text: list[int] = []
            for _ in range(_TRIES):
                text = self._prompt.words(self._words())
                if 0 < len(text) <= room:
                    break
            else:
                text = text[:room]  # nothing but long ones: the beginning of one
            line = [*self._head, *text, self._prompt.end]
            ids[row, : len(line)] = line
            mask[row, start : len(line)] = 1
        return ids, mask
