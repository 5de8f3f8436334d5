"""Of several takes the one that is heard best, and the sound that they are judged by."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, FICTION, tokenizer
from training.readers.judge import PhoneJudge
from training.readers.reading import Spoken
from training.readers.script import Line
from training.tts import takes as module
from training.tts.codes import load_codes
from training.tts.prompt import codec_ids
from training.tts.takes import Sound, Studio, best, record
from training.tts.talker import Talker
from training.tts.text import speakable

LINES = [Line(speakable(text), np.zeros(9, np.uint8), np.arange(9) % 3 == 0) for text in FICTION]
MODEL = Path("models/pocket-tts-en")


class Silence(Sound):
    def __init__(self) -> None:
        pass

    def __call__(self, codes: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]:
        return [np.zeros(100 * len(one), np.int16) for one in codes]


class Brief(PhoneJudge):
    """Likes what is short."""

    def __init__(self) -> None:
        pass

    def losses(self, read: Sequence[Spoken]) -> NDArray[np.float32]:
        return np.array([len(one.samples) / 1000 for one in read], np.float32)


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    torch.manual_seed(5)
    talker = Talker(CONFIG.talker, CONFIG.codec).eval()
    with torch.no_grad():
        talker.codec_head.weight[codec_ids(CONFIG).eos] = 0.0
    return Studio(CONFIG, talker, Silence(), tokenizer(tmp_path), Brief())


def test_the_best_take_of_every_line_is_kept_and_the_worst_lines_are_not(studio: Studio) -> None:
    made = studio.takes(LINES, "kathleen", 5, 1.0)
    assert [len(some) <= 5 for some in made] == [True] * 4 and any(len(some) > 1 for some in made)
    assert len({take.loss for some in made for take in some}) > 3
    for some, line in zip(made, LINES, strict=True):
        assert all(take.line is line and take.loss == pytest.approx(len(take.codes) / 10) for take in some)
    chosen = best(made, 1.0)
    assert {take.loss for take in chosen} == {min(t.loss for t in some) for some in made if some}
    assert best(made, 0.5) == chosen[: round(0.5 * len(chosen))]


def test_voices_take_turns_and_what_is_kept_is_saved(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROUND", 1)
    made = record(studio, LINES, ("slt", "kathleen"), 1.0, 4, 1.0, 600.0, tmp_path / "takes.npz")
    saved = load_codes(tmp_path / "takes.npz")
    assert saved.text == made.text and (saved.codes == made.codes).all() and not saved.held_out.any()
    in_turn = dict(zip(sorted((line.text for line in LINES), key=len), ("slt", "kathleen") * 2, strict=True))
    assert len(made.text) >= 3 and made.speaker == [in_turn[text] for text in made.text]


def test_sound_is_the_same_alone_and_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with np.load(MODEL / "held-out.npz") as z:
        codes = z["codes"][:60].astype(np.int16)
    some = [codes[:20], codes[20:60], codes[5:35]]
    sound = Sound(MODEL)
    alone = sound(some)
    assert [len(wave) for wave in alone] == [1280 * len(one) for one in some]
    assert all(np.abs(wave).max() > 1000 for wave in alone)
    monkeypatch.setattr(module, "_DECODED", 3)
    for one, other in zip(alone, sound(some), strict=True):
        assert np.abs(one.astype(int) - other).max() <= 8
