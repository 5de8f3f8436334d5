"""Where the pitch is bent, and how."""

import pytest
import torch

from training.speech.contour import Bend, bends, bent, ramps, yes_or_no
from training.speech.sounds import VOCABULARY


def tokens(sounds: str) -> list[int]:
    return [VOCABULARY[c] for c in sounds]


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        ("dˈɪd ju sˈi ɪt", True), ("ɹˈɛdi", True), ("wˌʌt dɪd ju sˈi", False), ("ænd hˌu ɪz ɪt", False),
        ("tˈi ɔɹ kˈɔfi", False), ("dˈu ju nˈO wˌɛɹ ɪt ɪz", True), ("", False), ("hjˈuʤ", True),
    ],
)  # fmt: skip
def test_questions_for_yes_or_no(sentence: str, wanted: bool) -> None:
    assert yes_or_no(sentence) == wanted


def test_the_last_stress_before_a_mark_is_where_it_bends() -> None:
    line = "ɪf ɪt ɹˈAnz, dˈu ju stˈAs? wˌʌt? nˈO. ˈA;"
    found = bends(line, tokens(line))
    assert [(line[begin:end], rises) for begin, end, rises in found] == [("ˈAnz", False), ("ˈA", True), ("ˈA", False)]


def test_a_british_line_bends_at_the_same_marks() -> None:
    american, said = "sˈi kˈɑɹ? nˈO.", "sˈiː kˈɑː? nˈQ."
    [bend] = bends(american, tokens(said))
    assert said[bend.begin : bend.end] == "ˈɑ" and bend.rises


def test_what_rises_ends_above_the_usual_pitch_and_what_is_held_falls_less() -> None:
    torch.manual_seed(0)
    durations = torch.tensor([[2, 2, 2, 4, 2], [2, 2, 2, 4, 2], [2, 2, 2, 4, 2]])
    lines = [[Bend(2, 3, True)], [Bend(2, 3, False)], []]
    rising, held = ramps(lines, durations, 12)
    assert (rising[0] >= 0).nonzero()[:, 0].tolist() == list(range(12, 20)) == (held[1] >= 0).nonzero()[:, 0].tolist()
    assert (rising[1:] < 0).all() and (held[[0, 2]] < 0).all()
    pitch = torch.linspace(120, 80, 24).repeat(3, 1)
    pitch[:, 14] = 0.0  # Nothing is voiced here.
    made = bent(pitch, rising, held)
    assert torch.equal(made[2], pitch[2]) and torch.equal(made[:, :12], pitch[:, :12])
    assert made[0, 12] < pitch[0, :12].median() * 1.01 and made[0, 19] > 1.25 * pitch[0, :12].median()
    assert made[1, 12] == pitch[1, 12] and 1.1 * pitch[1, 19] < made[1, 19] < 1.2 * pitch[1, 19]
    assert (made[:, 14] == 0).all()
