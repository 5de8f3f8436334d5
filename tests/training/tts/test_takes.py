"""Of several takes the one that is heard best."""

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
from training.tts.takes import Studio, best, record
from training.tts.talker import Talker
from training.tts.text import speakable

LINES = [Line(speakable(text), np.zeros(9, np.uint8), np.arange(9) % 3 == 0) for text in FICTION]


def silence(codes: Sequence[NDArray[np.int16]]) -> list[NDArray[np.int16]]:
    return [np.zeros(100 * len(one), np.int16) for one in codes]


class Brief(PhoneJudge):
    """Likes what is short; finds that the phones of the line `deaf` fit into nothing."""

    deaf = ""

    def __init__(self) -> None:
        pass

    def losses(self, read: Sequence[Spoken]) -> NDArray[np.float32]:
        found = [np.inf if one.line.text == self.deaf else len(one.samples) / 1000 for one in read]
        return np.array(found, np.float32)


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    torch.manual_seed(5)
    talker = Talker(CONFIG.talker, CONFIG.codec).eval()
    with torch.no_grad():
        talker.codec_head.weight[codec_ids(CONFIG).eos] = 0.0
    return Studio(CONFIG, talker, silence, tokenizer(tmp_path), Brief())


def test_the_best_take_of_every_line_is_kept_and_the_worst_lines_are_not(studio: Studio) -> None:
    made = studio.takes(LINES, "kathleen", 5, 1.0)
    assert any(len(some) > 1 for some in made)
    assert len({take.loss for some in made for take in some}) > 3
    for some, line in zip(made, LINES, strict=True):
        assert all(take.line is line and take.loss == pytest.approx(len(take.codes) / 10) for take in some)
    chosen = best(made, 1.0)
    assert {take.loss for take in chosen} == {min(t.loss for t in some) for some in made if some}
    assert best(made, 0.5) == chosen[: round(0.5 * len(chosen))]


def test_what_does_not_end_or_is_not_heard_is_no_take(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [9, 12, 7, 12, 5, 6, 8, 4]
    monkeypatch.setattr(module, "speak", lambda *_: [np.zeros((n, 3), np.int16) for n in lengths])
    Brief.deaf = LINES[2].text
    try:
        made = studio.takes(LINES, "slt", 2, 1.0)
    finally:
        Brief.deaf = ""
    assert [[len(take.codes) for take in some] for some in made] == [[9], [7], [], [8, 4]]
    assert [len(take.codes) for take in best(made, 1.0)] == [4, 7, 9]


def test_voices_take_turns_and_what_is_kept_is_saved(
    studio: Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HELD_OUT", 2)
    made = record(studio, LINES, ("slt", "kathleen"), 1.0, 4, 1.0, 600.0, tmp_path / "takes.npz", together=1)
    saved = load_codes(tmp_path / "takes.npz")
    assert saved.text == made.text and (saved.codes == made.codes).all()
    assert saved.held_out.tolist() == [i % 2 == 1 for i in range(len(made.text))]
    in_turn = dict(zip(sorted((line.text for line in LINES), key=len), ("slt", "kathleen") * 2, strict=True))
    assert len(made.text) >= 3 and made.speaker == [in_turn[text] for text in made.text]
    with pytest.raises(ValueError, match="no line was kept"):
        record(studio, LINES, ("slt",), 1.0, 4, 0.0, 600.0, tmp_path / "none.npz", together=1)
    assert not (tmp_path / "none.npz").exists()
