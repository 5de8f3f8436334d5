"""What the roofline says of a phase: what it multiplies and reads, and which limit is the nearer one."""

from pathlib import Path

import pytest

from bench.roofline import Limits, Load, phases, rows
from engines.manifest import read_asr


def test_the_nearer_limit_is_the_one_that_takes_longer() -> None:
    """Products of both kinds come one after the other; reading goes on meanwhile."""
    limits = Limits(real=100.0, bytes=400.0, read=20.0)
    assert Load(real=1e9, bytes=4e9, read=2e8).seconds(limits) == pytest.approx((0.02, "products"))  # pyright: ignore[reportUnknownMemberType]
    assert Load(real=0, bytes=4e9, read=4e8).seconds(limits) == pytest.approx((0.02, "reading"))  # pyright: ignore[reportUnknownMemberType]
    (row,) = rows({"a phase": (0.025, Load(1e9, 4e9, 2e8))}, limits)
    assert row.met and "80 % of products" in row.reached and "25 ms, 5 G products, 200 MB" in row.reached


def test_the_bundled_model_multiplies_what_its_dimensions_say(asr_directory: Path) -> None:
    manifest = read_asr(asr_directory)
    found = {name: load for name, (_, load) in phases(asr_directory, 1).items()}
    stem, body = found["stem, a chunk"], found["body, a window"]
    # Both graphs share the file of weights, which has gaps; each weight is read by one of them.
    weights = (asr_directory / "encoder.weights").stat().st_size
    assert stem.read + body.read == pytest.approx(weights, rel=0.01)  # pyright: ignore[reportUnknownMemberType]
    # 8-bit weights are multiplied by every row of a window; some bytes are no such weights but scales and tables.
    assert 0.9 < body.bytes / (manifest.encoder.window_rows * body.read) < 1.0
    one, many = found["decoder, 1 row"].bytes, found["decoder, 100 rows"].bytes
    # Each further row goes through the layers; the head, a sixteenth of the weights, is multiplied once a call.
    assert (many - one) / 99 + manifest.decoder.vocabulary * manifest.decoder.width == one
    assert found["decoder, 1 row"].read < manifest.files["decoder.gguf"].bytes
