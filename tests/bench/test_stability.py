"""The promise of committed words, on recordings and speech that no model was trained on."""

from bench.stability import measure
from tests.clips import DATA


def test_finals_lack_at_most_one_committed_word_in_a_hundred() -> None:
    """Over all recordings; and with the synthetic clips enough words are committed for that to mean something."""
    found = [measure(DATA), measure(DATA.parent / "synthetic")]
    assert int(str(found[0]["committed_words"])) > 500
    assert float(str(found[0]["lacking_share"])) <= 0.01
    committed = sum(int(str(each["committed_words"])) for each in found)
    lacking = sum(int(str(each["committed_words_the_final_lacks"])) for each in found)
    assert committed > 1000
    assert lacking <= 0.01 * committed
