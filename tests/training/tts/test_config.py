"""The configuration file."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.tts.shapes import CONFIG
from training.tts.config import check, load_config

FOLDER = Path(__file__).parents[3] / "training/tts"


def test_the_file_is_sound_and_names_its_rate() -> None:
    codec = load_config(FOLDER / "pocket-tts-en.toml").codec
    assert 12.5 * codec.num_quantizers * (codec.codebook_size.bit_length() - 1) == 1000


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[codec]\ncodebooks = 8\n")
    with pytest.raises(ValueError, match=r"codec\.codebooks: unknown setting"):
        load_config(path)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("codec", {"upsample_rates": (8, 5, 4, 2)}, "1280 samples a frame, must be 1920"),
        ("codec", {"num_quantizers": 1}, "must be at least 2"),
        ("codec", {"decoder_dim": 24}, "cannot be halved 4 times"),
        ("talker", {"num_key_value_heads": 3}, "does not divide 2 heads"),
        ("talker", {"control_ids": 9}, "do not hold 8 tags and 2 speakers"),
        ("talker_training", {"own_rows": 1.5}, "own_rows: 1.5, must lie in 0..1"),
    ],
)
def test_impossible_shapes_are_refused(part: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check(replace(CONFIG, **{part: replace(getattr(CONFIG, part), **change)}))
