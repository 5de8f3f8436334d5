"""How the threads of the process are shared out."""

import pytest

from engines.threads import SMALL_BYTES, Share, halves


@pytest.mark.parametrize(
    ("weight_bytes", "threads", "card", "making", "decoding"),
    [
        (SMALL_BYTES, 1, None, Share(1, False), Share(1, False)),
        (SMALL_BYTES, 2, None, Share(1, True), Share(1, True)),
        (SMALL_BYTES, 8, None, Share(5, True), Share(3, True)),
        (SMALL_BYTES - 1, 8, None, Share(1, True), Share(1, True)),
        (SMALL_BYTES, 8, 4, Share(4, True), Share(4, True)),
    ],
)
def test_a_large_voice_makes_and_decodes_side_by_side(
    weight_bytes: int, threads: int, card: int | None, making: Share, decoding: Share
) -> None:
    """Both parts together take no more threads than there are; a small model's and a card's calls stay as they are."""
    assert halves(weight_bytes, threads, card) == (making, decoding)
