"""The curve of committed words as a picture: needs matplotlib, which `make test` does without."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.stability import Committed, plot
from streaming.stability import WITH_CTC


def test_the_curve_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra eval")
    curve = [(WITH_CTC, Committed(10, 5, 6, 1)), (replace(WITH_CTC, bound=-0.5), Committed(10, 3, 4, 0))]
    plot(curve, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
