"""When each phone of a recording is said."""

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch
from torch import nn

from training.asr.phones import FRAMES_PER_ROW
from training.readers import timing
from training.readers.timing import spelled, time_phones
from training.shards import Clip

LETTERS = "abcde"
SAID = {"good.ogg": (3, 6, 10, 14), "other.ogg": (2, 3, 8)}
"""The frames at which the phones of a clip are heard."""


class Spelt:
    """A phone a letter."""

    def of(self, words: list[str]) -> list[int]:
        return [LETTERS.index(c) for w in words for c in w if c in LETTERS]

    def __len__(self) -> int:
        return len(LETTERS)


def clip(file: str, text: str) -> Clip:
    return Clip(np.zeros(16000, np.int16), text, "", "LibriSpeech", "librispeech", file)


CLIPS = [clip("good.ogg", "ABBA"), clip("other.ogg", "CAB"), clip("wrong.ogg", "EEE"), clip("none.ogg", "xyz")]


def states_of(clips: list[Clip]) -> Iterator[tuple[Clip, NDArray[np.float16]]]:
    """What an encoder's inner layer might say, already in the shape of scores: 6 rows of frames each."""
    for one in clips:
        scores = np.zeros((6 * FRAMES_PER_ROW, len(LETTERS) + 1), np.float16)
        scores[:, -1] = 8
        for frame, letter in zip(SAID.get(one.file, ()), one.text.lower(), strict=False):
            scores[frame, LETTERS.index(letter)] = 20
        yield one, scores.reshape(6, -1)


def test_words_are_spelled_one_after_the_other() -> None:
    assert spelled(Spelt(), ["ab", "xyz", "c"]) == ([0, 1, 2], [True, False, True])  # pyright: ignore[reportArgumentType]


def test_a_phone_is_said_where_the_head_first_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "inner_states", lambda _tower, clips, _device: states_of(clips))
    width = FRAMES_PER_ROW * (len(LETTERS) + 1)
    tower = SimpleNamespace(ln_post=SimpleNamespace(weight=torch.zeros(width)))
    model = SimpleNamespace(phones=nn.Identity(), thinker=SimpleNamespace(audio_tower=tower))
    found = list(time_phones(model, CLIPS, Spelt(), torch.device("cpu")))  # pyright: ignore[reportArgumentType]
    assert [t.file for t in found] == ["good.ogg", "other.ogg"]  # what was not said is left out
    for t in found:
        assert t.text == t.text.lower() and t.first.tolist() == [True] + [False] * (len(t.text) - 1)
        assert t.phones.tolist() == [LETTERS.index(c) for c in t.text]
        assert t.at.tolist() == [round((frame + 0.5) * 8 / FRAMES_PER_ROW) for frame in SAID[t.file]]
