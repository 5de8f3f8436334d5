"""Some recordings are there once more, over a telephone."""

import numpy as np
import pytest

pytest.importorskip("torch")

from training.asr.telephone import telephoned
from training.shards import Clip


def test_a_share_of_the_clips_is_there_once_more() -> None:
    """Another seed takes other clips. Their words stay the same, and the clips themselves stay."""
    rng = np.random.default_rng(1)
    clips = [Clip(rng.integers(-9000, 9000, 4000 + i).astype(np.int16), f"clip {i}", "", "", "an4") for i in range(20)]
    copies = telephoned(clips, 0.25, 3, 1)
    assert len(copies) == 5 and len({c.text for c in copies}) == 5
    assert [c.text for c in copies] != [c.text for c in telephoned(clips, 0.25, 4, 1)]
    by_text = {c.text: c for c in clips}
    assert all(len(c.samples) == len(by_text[c.text].samples) for c in copies)
    assert not any(np.array_equal(c.samples, by_text[c.text].samples) for c in copies)
    assert telephoned(clips, 0.0, 3, 1) == []
