"""Graphs that cannot be loaded or run raise one kind of error, which names the file."""

from pathlib import Path

import numpy as np
import pytest

from engines.onnx import Graph, GraphError, ProviderError

FRAME = Path(__file__).parents[1] / "golden" / "tts" / "frame.onnx"


def damaged(tmp_path: Path, content: bytes) -> Path:
    """A file with that content."""
    path = tmp_path / "odd.onnx"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [b"", b"not a graph", FRAME.read_bytes()[:3000], FRAME.read_bytes()[3000:]])
def test_what_is_no_graph_is_refused(tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """Each gives one error, and nothing on the terminal."""
    with pytest.raises(GraphError, match=r"ONNX Runtime cannot load .*odd\.onnx: "):
        Graph(damaged(tmp_path, content), threads=1, provider="cpu")
    with pytest.raises(GraphError, match=r"absent\.onnx"):
        Graph(tmp_path / "absent.onnx", threads=1, provider="cpu")
    assert capfd.readouterr().out == ""


def test_a_name_that_is_no_text_is_refused_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """ONNX Runtime's own second try, without a GPU that nobody asked for, does not happen and prints nothing."""
    content = FRAME.read_bytes()
    assert b"temperature" in content
    path = damaged(tmp_path, content.replace(b"temperature", b"temperatur\xe9"))
    with pytest.raises(GraphError, match=r"odd\.onnx"):
        Graph(path, threads=1, provider="cpu")
    assert capfd.readouterr().out == ""


def test_a_failing_run_names_its_graph() -> None:
    graph = Graph(FRAME, threads=1, provider="cpu")
    with pytest.raises(GraphError, match=r"ONNX Runtime cannot run .*frame\.onnx: "):
        graph.run({name: np.zeros((3, 3), np.float32) for name in graph.inputs})


def test_an_unknown_provider_is_no_fault_of_the_graph() -> None:
    with pytest.raises(ProviderError, match="'abacus' is none of"):
        Graph(FRAME, threads=1, provider="abacus")
