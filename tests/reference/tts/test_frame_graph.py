"""The rounded frame graph of an export in q4_k_m: how near it is to the GGUFs, and that a session speaks with it."""

from pathlib import Path

import numpy as np
import pytest

from codec.events import AudioChunk
from codec.frame_graph import FrameGraph
from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.predictor import Entry, FrameStart, Predictor
from codec.sampling import Sampling, generator
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


def test_its_codes_are_as_near_as_the_ggufs(wide: Case, rounded: Path, tmp_path: Path) -> None:
    """Code 1 of 200 frames, the likeliest, against the float32 GGUF's; and the same alone and eight at a time."""
    model = TtsModel(rounded, sessions=1, threads=1, voices=tmp_path)
    manifest = model.manifest
    assert manifest.predictor.graph is not None
    entry = Entry(manifest.predictor, rounded, model.engine.codes)
    graph = FrameGraph(Graph(rounded / manifest.predictor.graph, threads=1, provider="cpu"), entry)
    hidden = np.random.default_rng(0).standard_normal((FRAMES, manifest.talker.width)).astype(np.float32)
    starts = [FrameStart(h, i % 7, Sampling(greedy=True), generator(1, i)) for i, h in enumerate(hidden)]
    made = {"graph": graph.run(starts)}
    assert [graph.run([start])[0] for start in starts] == made["graph"]
    for name, directory in (("f32", wide.exported), ("q4_k_m", rounded)):
        decoder = Decoder(
            directory / "predictor.gguf", sequences=1, rows=manifest.codec.codebooks, threads=1, kv="f32", hidden=True,
            shared_rows=2,
        )  # fmt: skip
        made[name] = Predictor(manifest.predictor, directory, decoder, entry).run(starts)
        decoder.close()
    model.close()
    agreed = {name: np.mean([a[1] == b[1] for a, b in zip(made[name], made["f32"], strict=True)]) for name in made}
    print(f"code 1 as in float32: graph {agreed['graph']:.3f}, q4_k_m {agreed['q4_k_m']:.3f}")
    assert agreed["graph"] >= agreed["q4_k_m"] - 0.1


def test_a_session_speaks_with_it(rounded: Path, tmp_path: Path) -> None:
    """The same seed, the same speech."""
    model = TtsModel(rounded, sessions=1, threads=1, voices=tmp_path)
    said: list[bytes] = []
    for _ in range(2):
        speaker = model.speaker(SpeakOptions(seed=3))
        speaker.say("Hello there.")
        speaker.finish()
        said.append(b"".join(e.samples.tobytes() for e in speaker.events() if isinstance(e, AudioChunk)))
        speaker.close()
    model.close()
    assert said[0] == said[1] and len(said[0]) > 4 * 1920
