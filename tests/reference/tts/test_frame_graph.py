"""Frame graphs, rounded as for processors and in float16 as for CUDA: how near they are to the GGUFs, and that a
session speaks with what is for its device."""

from pathlib import Path

import numpy as np
import pytest

from codec.events import AudioChunk
from codec.frame_graph import FrameGraph
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.predictor import Entry, FrameStart, Predictor
from codec.rows import CodeTable
from codec.sampling import Sampling, generator
from engines import manifest as manifests
from engines.gguf import Decoder
from engines.onnx import Graph
from export.tts import api
from tests.reference.tts.conftest import Case

pytestmark = pytest.mark.reference

FRAMES = 200


@pytest.fixture(scope="module")
def rounded(wide: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory in q4_k_m."""
    return api.run(wide.checkpoint, tmp_path_factory.mktemp("rounded") / "model", codec="fp32", decoder="q4_k_m")


@pytest.fixture(scope="module")
def half(wide: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model directory for a graphics card."""
    return api.run(wide.checkpoint, tmp_path_factory.mktemp("half") / "model", codec="fp16", decoder="f16")


def test_rounded_codes_are_as_near_as_the_ggufs(wide: Case, rounded: Path) -> None:
    """Code 1 of 200 frames, the likeliest, against the float32 GGUF's; and the same alone and eight at a time."""
    agreed = agreement(wide, rounded, "int4")
    print(f"code 1 as in float32: graph {agreed['graph']:.3f}, q4_k_m {agreed['gguf']:.3f}")
    assert agreed["graph"] >= agreed["gguf"] - 0.1


def test_codes_in_half_precision_are_those_of_float32(wide: Case, half: Path) -> None:
    """Of 200 frames, by a processor, which is not what such a graph is for."""
    agreed = agreement(wide, half, "fp16")
    print(f"code 1 as in float32: graph {agreed['graph']:.3f}, f16 {agreed['gguf']:.3f}")
    assert agreed["graph"] >= 0.98


def agreement(wide: Case, directory: Path, weights: str) -> dict[str, float]:
    """Which share of the likeliest codes 1 of ``directory``'s graph and GGUF are those of the float32 GGUF."""
    manifest = manifests.read_tts(directory)
    assert manifest.predictor.graph is not None and manifest.predictor.graph_weights == weights
    codes = CodeTable(
        directory / manifest.code_rows,
        vocabulary=manifest.talker.vocabulary,
        entries=manifest.codec.entries,
        codebooks=manifest.codec.codebooks,
    )
    entry = Entry(manifest.predictor, directory, codes)
    graph = FrameGraph(Graph(directory / manifest.predictor.graph, threads=1, provider="cpu"), entry)
    hidden = np.random.default_rng(0).standard_normal((FRAMES, manifest.talker.width)).astype(np.float32)
    starts = [FrameStart(h, i % 7, Sampling(greedy=True), generator(1, i)) for i, h in enumerate(hidden)]
    made = {"graph": graph.run(starts)}
    assert [graph.run([start])[0] for start in starts] == made["graph"]
    for name, place in (("f32", wide.exported), ("gguf", directory)):
        decoder = Decoder(
            place / "predictor.gguf", sequences=1, rows=manifest.codec.codebooks, threads=1, kv="f32", hidden=True,
            shared_rows=2,
        )  # fmt: skip
        made[name] = Predictor(manifest.predictor, directory, decoder, entry).run(starts)
        decoder.close()
    return {name: float(np.mean([a[1] == b[1] for a, b in zip(made[name], made["f32"], strict=True)])) for name in made}


@pytest.mark.parametrize(("kind", "maker"), [("rounded", FrameGraph), ("half", Predictor)])
def test_a_session_speaks_on_a_processor(
    kind: str, maker: type, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """By the graph that is for it; one for CUDA is left alone. The same seed, the same speech."""
    model = TtsModel(request.getfixturevalue(kind), sessions=1, threads=1, device="cpu", voices=tmp_path)
    assert isinstance(model.engine._predictor, maker)
    said: list[bytes] = []
    for _ in range(2):
        speaker = model.speaker(SpeakOptions(seed=3))
        speaker.say("Hello there.")
        speaker.finish()
        said.append(b"".join(e.samples.tobytes() for e in speaker.events() if isinstance(e, AudioChunk)))
        speaker.close()
    model.close()
    assert said[0] == said[1] and len(said[0]) > 4 * 1920
