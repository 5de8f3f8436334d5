"""A frame in one call of an ONNX graph: the codes that llama.cpp's passes give, whoever shares the call."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from codec.frame_graph import FrameGraph
from codec.predictor import Entry, FrameStart, Predictor
from codec.rows import CodeTable
from codec.sampling import Sampling, generator
from engines import manifest as manifests
from engines.gguf import Decoder
from engines.manifest import ManifestError
from engines.onnx import Graph

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tts"
DIRECTORY = GOLDEN / "model"
MANIFEST = manifests.read_tts(DIRECTORY)
FRAMES = 50
SAMPLINGS = (
    Sampling(greedy=True),
    Sampling(),
    Sampling(predictor_temperature=0.5, predictor_top_k=5),
    Sampling(predictor_top_k=0, predictor_top_p=0.7),
)


@pytest.fixture(scope="module")
def entry() -> Entry:
    spec = MANIFEST.codec
    codes = CodeTable(
        DIRECTORY / MANIFEST.code_rows,
        vocabulary=MANIFEST.talker.vocabulary,
        entries=spec.entries,
        codebooks=spec.codebooks,
    )
    return Entry(MANIFEST.predictor, DIRECTORY, codes)


@pytest.fixture(scope="module")
def graph(entry: Entry) -> FrameGraph:
    """Of the golden model, float32."""
    return FrameGraph(Graph(GOLDEN / "frame.onnx", threads=1, provider="cpu"), entry)


@pytest.fixture(scope="module", params=[False, True], ids=["each", "together"])
def passes(entry: Entry, request: pytest.FixtureRequest) -> Iterator[Predictor]:
    """The same model's GGUF, float32; products frame by frame, and of a whole batch, as on a graphics card."""
    file = DIRECTORY / MANIFEST.predictor.decoder.file
    decoder = Decoder(file, sequences=8, rows=MANIFEST.codec.codebooks, threads=1, kv="f32", hidden=True, shared_rows=2)
    yield Predictor(MANIFEST.predictor, DIRECTORY, decoder, entry, together=request.param)
    decoder.close()


def starts(sampling: Sampling, count: int = FRAMES) -> list[FrameStart]:
    """Frames to be made, each with random numbers of its own."""
    hidden = np.random.default_rng(1).standard_normal((count, MANIFEST.talker.width)).astype(np.float32)
    return [FrameStart(row, i % MANIFEST.codec.entries, sampling, generator(7, i)) for i, row in enumerate(hidden)]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_frame_is_that_of_the_passes(graph: FrameGraph, passes: Predictor, sampling: Sampling) -> None:
    """Greedy and drawn, with few and all codes to choose from; and as many random numbers are used up."""
    ours, theirs = starts(sampling), starts(sampling)
    made = graph.run(ours)
    assert made == passes.run(theirs)
    assert len({code for frame in made for code in frame[1:]}) >= 20
    assert [s.random.random() for s in ours] == [s.random.random() for s in theirs]


def test_frames_of_many_are_those_of_one(graph: FrameGraph) -> None:
    """Alone and among others, whatever these ask for."""
    mixed = [start for group in zip(*(starts(s, 12) for s in SAMPLINGS), strict=True) for start in group]
    alone = [
        graph.run([start])[0] for group in zip(*(starts(s, 12) for s in SAMPLINGS), strict=True) for start in group
    ]
    assert graph.run(mixed) == alone


def test_without_cuda_llama_makes_frames(entry: Entry, caplog: pytest.LogCaptureFixture) -> None:
    """A graph for CUDA that cannot run there is told in the log, and there is none."""
    assert FrameGraph.on_cuda(GOLDEN / "frame.onnx", entry) is None
    assert "llama.cpp makes frames, because CUDA cannot run them as one graph: provider: " in caplog.text


def test_another_graph_is_refused(entry: Entry) -> None:
    other = Graph(DIRECTORY / MANIFEST.codec.file, threads=1, provider="cpu")
    with pytest.raises(ManifestError, match=f"{MANIFEST.codec.file}: takes "):
        FrameGraph(other, entry)
