"""What further hearings give and cost: a line a bound, finals and hearings counted."""

from pathlib import Path

import pytest

from bench.hearings import main
from streaming.hearings import SPEEDS
from tests.bench.conftest import pick, write_shard


def test_a_line_a_bound_and_what_was_heard_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is heard again with the bound that nothing is below, everything short with the one at certainty."""
    shard = tmp_path / "x.tar"
    write_shard(shard, pick("librispeech", 2, 2.0, 6.0))
    assert main(["--shards", str(shard), "--bounds", "never", "0"]) == 0
    name, head, _, *lines = capsys.readouterr().out.splitlines()
    assert name.endswith("2 clips")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *lines)]
    rows = [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
    assert [row["unlikeliest token below"] for row in rows] == ["never", "1.00 (log 0)"]
    assert [row["finals heard again"] for row in rows] == ["0.0 %", "100.0 %"]
    assert float(rows[0]["hearings more a final"]) == 0.0 < float(rows[1]["hearings more a final"]) <= len(SPEEDS)
    assert all(0 <= float(row["WER"]) <= 100 and float(row["CPU a final"].removesuffix(" ms")) > 0 for row in rows)


def test_no_clips_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard, names = tmp_path / "x.tar", tmp_path / "names"
    write_shard(shard, pick("librispeech", 1))
    names.write_text("other.opus")
    assert main(["--shards", str(shard), "--only", str(names)]) == 2
    assert "--only" in capsys.readouterr().err
