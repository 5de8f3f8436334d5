"""The promise of committed words, on recordings that no model was trained on."""

from bench.stability import measure
from tests.clips import DATA


def test_finals_lack_at_most_one_committed_word_in_a_hundred() -> None:
    """And enough words are committed for that to mean something."""
    found = measure(DATA, limit=60)
    assert int(str(found["committed_words"])) > 200
    assert float(str(found["lacking_share"])) <= 0.01
