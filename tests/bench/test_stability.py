"""The promise of committed words, on recordings that no model was trained on."""

from bench.stability import measure
from tests.clips import DATA


def test_finals_lack_at_most_one_committed_word_in_a_hundred() -> None:
    """Over all clips; and so many words are committed that one of them more or less does not decide."""
    found = measure(DATA)
    assert int(str(found["committed_words"])) > 200
    assert float(str(found["lacking_share"])) <= 0.01
