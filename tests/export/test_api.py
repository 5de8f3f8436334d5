"""What the command line calls, in an environment without torch."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from export import api
from export.checkpoint import CheckpointError
from tests.export.checkpoints import tensors, write_checkpoint


def test_inspect_needs_no_torch_and_prints_every_dimension(tmp_path: Path) -> None:
    """A fresh interpreter runs it, so that nothing else can have imported torch."""
    directory = write_checkpoint(tmp_path / "checkpoint")
    code = (
        "import sys; from pathlib import Path; from export import api; "
        f"print(api.inspect(Path({str(directory)!r}))); "
        "assert not {'torch', 'onnx', 'transformers'} & sys.modules.keys()"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for words in ("original layout", "window rows     104", "head dim        32", "vocabulary      512", "KV 0.5 KiB"):
        assert words in printed


def test_the_report_counts_what_is_there(tmp_path: Path) -> None:
    """The report has the right number of tensors and of parameters."""
    values = tensors()
    report = api.inspect(write_checkpoint(tmp_path, values))
    assert (report.tensors, report.parameters) == (len(values), sum(array.size for array in values.values()))


@pytest.mark.parametrize(
    ("encoder", "decoder", "message"), [("int4", "q8_0", "encoder: 'int4'"), ("int8", "q5", "decoder: 'q5'")]
)
def test_unknown_formats_are_refused(tmp_path: Path, encoder: str, decoder: str, message: str) -> None:
    """An unknown format is refused before anything is read."""
    with pytest.raises(CheckpointError, match=message):
        api.run(tmp_path, tmp_path / "out", encoder=encoder, decoder=decoder, clip=False, name=None)


def test_a_missing_package_gives_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the package and how to install it."""
    directory = write_checkpoint(tmp_path / "checkpoint")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    for call in (
        lambda: api.run(directory, tmp_path / "out", encoder="fp32", decoder="f32", clip=False, name=None),
        lambda: api.verify(tmp_path, directory),
    ):
        with pytest.raises(api.ExportUnavailable, match=r"needs .*torch.*: pip install torch") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_tables_say_what_failed() -> None:
    """A row shows whether its limit is broken, kept or missing; NaN never keeps a limit."""
    from export.table import Row, Table

    good, bad, shown = Row("a", "x", 1.0, 2.0), Row("b", "y", float("nan"), 0.5), Row("c", "z", 9.0, None)
    least = Row("d", "w", 1.0, 2.0, at_least=True)
    assert (good.passed, bad.passed, shown.passed, least.passed) == (True, False, True, False)
    assert Table("t", (good, shown)).passed and "parity holds" in str(Table("t", (good, shown)))
    assert not Table("t", (good, bad)).passed and "1 rows FAILED" in str(Table("t", (good, bad)))
