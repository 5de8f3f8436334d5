"""Graphs that cannot be loaded or run raise one kind of error, which names the file."""

from pathlib import Path

import numpy as np
import pytest

from engines.onnx import CPU, EP_FAIL, Graph, GraphError, ProviderError

FRAME = Path(__file__).parents[1] / "golden" / "tts" / "frame.onnx"
VOICE = Path(__file__).parents[2] / "models" / "silero-vad" / "silero_vad_16k_op15.onnx"


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


class Card:
    """A session whose provider fails in its runs, as cuDNN does with some convolutions; it stands for a card, which no
    test has."""

    def __init__(self, graph: Graph) -> None:
        self._plain, self.failing = graph._session, True
        graph._session, graph.provider = self, "CUDAExecutionProvider"

    def run(self, wanted: object, feeds: object) -> object:
        """Raise, until the provider is another."""
        if self.failing:
            raise EP_FAIL(f"no algorithm\n{'page after page ' * 99}")
        return self._plain.run(wanted, feeds)

    def set_providers(self, providers: list[str]) -> None:
        """Go on without the card."""
        self.failing = providers != [CPU]


def test_what_the_card_cannot_run_runs_on_the_processor_and_says_so(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a word a voice would take 1.2 s of a card's machine for each of its seconds."""
    feeds = example()
    expected = Graph(VOICE, threads=1, provider="cpu").run(feeds)
    graph = Graph(VOICE, threads=1, provider="auto")
    Card(graph)
    graph._retreats = True
    with caplog.at_level("WARNING"):
        np.testing.assert_array_equal(graph.run(feeds)[0], expected[0])
        graph.run(feeds)
    (record,) = caplog.records
    assert record.getMessage() == f"{VOICE} runs on the processor, because the card cannot run it: no algorithm"
    assert graph.provider == CPU
    assert capfd.readouterr().out == ""


def test_a_card_that_was_asked_for_and_fails_is_an_error_with_a_way_out() -> None:
    graph = Graph(VOICE, threads=1, provider="cpu")
    Card(graph)
    with pytest.raises(GraphError, match=r"no algorithm; with --device cpu it runs on the processor$"):
        graph.run(example())


def example() -> dict[str, np.ndarray]:
    """Silence for the voice activity's graph."""
    return {
        "input": np.zeros((1, 576), np.float32),
        "state": np.zeros((2, 1, 128), np.float32),
        "sr": np.array(16_000),
    }
