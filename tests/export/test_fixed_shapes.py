"""After warm-up no graph meets a new shape, on a device that compiles a graph for every shape.

No such device is at hand, so every graph that would run on it says that it needs fixed shapes and is watched; the rest
is the real thing, sessions in a crowd included.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codec.model import TtsModel
from codec.options import SpeakOptions
from engines.onnx import CUDA_BATCHES, CUDA_CONVOLVED, Graph
from streaming.model import AsrModel
from tests.clips import RATE, Clip
from tests.codec.talking import SHORT_TEXT, TEXT, heard, say
from tests.golden_models import GOLDEN, aligner
from tests.streaming.listening import LIVE, OFFLINE, finals, listen

DEVICE = "DmlExecutionProvider"
CUTS = ([1600], [4000], [16000], [300, 9000], [80_000])

Shapes = frozenset[tuple[str, tuple[int, ...]]]


class Watched:
    """The shapes of inputs that every graph met, and how often each graph ran."""

    def __init__(self) -> None:
        self.shapes: dict[str, set[Shapes]] = {}
        self.calls: dict[str, int] = {}

    def marked(self) -> dict[str, set[Shapes]]:
        """Remember the shapes so far, and count calls from here on."""
        self.calls.clear()
        return {name: set(shapes) for name, shapes in self.shapes.items()}


def watch(patch: pytest.MonkeyPatch, *, fixed: bool, cuda: bool = False) -> Watched:
    """Watch every graph that is loaded from here on and would run on the device. If ``fixed``, graphs say that they
    need fixed shapes, and if ``cuda`` those of convolutions that they need one."""
    watched, load, run = Watched(), Graph.__init__, Graph.run

    def loaded(self: Graph, path: Path, *, threads: int, provider: str = "auto", convolves: bool = False) -> None:
        load(self, path, threads=threads, provider="cpu")
        if provider != "cpu":
            self.provider, self.fixed = DEVICE, fixed
            if cuda:
                self.batches = CUDA_CONVOLVED if convolves else CUDA_BATCHES

    def ran(self: Graph, feeds: Mapping[str, Any], wanted: Sequence[str] | None = None, **more: bool) -> list[Any]:
        if self.provider == DEVICE:
            name = f"{self.path.parent.name}/{self.path.name}"
            shapes = frozenset((key, tuple(value.shape)) for key, value in feeds.items())
            watched.shapes.setdefault(name, set()).add(shapes)
            watched.calls[name] = watched.calls.get(name, 0) + 1
        return run(self, feeds, wanted, **more)

    patch.setattr(Graph, "__init__", loaded)
    patch.setattr(Graph, "run", ran)
    return watched


@pytest.fixture
def patch() -> Iterator[pytest.MonkeyPatch]:
    """Patches that are undone before any other fixture ends."""
    with pytest.MonkeyPatch.context() as context:
        yield context


def crowd(model: AsrModel, clips: Sequence[Clip]) -> int:
    """Let six sessions at a time hear the clips, live in ragged pieces and as files, and return how many finals there
    were."""

    def one(number: int) -> int:
        samples = clips[number].samples[: 12 * RATE]
        options, cuts = (LIVE, CUTS[number % 5]) if number % 3 else (OFFLINE, [len(samples)])
        # Forced, or a model of random weights hears no language and so no words to align.
        return len(finals(listen(model, samples, replace(options, language="en"), cuts)))

    with ThreadPoolExecutor(6) as pool:
        return sum(pool.map(one, range(len(clips))))


def batched(shapes: Mapping[str, set[Shapes]], name: str) -> bool:
    """Whether a graph ever had more than one item in a call."""
    return any(shape[0] > 1 for met in shapes[name] for _, shape in met)


@pytest.mark.parametrize("cuda", [False, True])
@pytest.mark.parametrize("family", ["qwen3-asr", "fun-asr-nano"])
def test_hearing_meets_no_new_shape(
    patch: pytest.MonkeyPatch, clips: list[Clip], tmp_path: Path, family: str, cuda: bool
) -> None:
    """The encoder graphs of both families, and an aligner's, meet no new shape; on CUDA those with convolutions always
    the same."""
    watched = watch(patch, fixed=True, cuda=cuda)
    if family == "qwen3-asr":
        (tmp_path / "aligner").mkdir()
        model = AsrModel(GOLDEN / "int8", sessions=6, threads=2, aligner=aligner(tmp_path / "aligner"))
        names = {"int8/stem.onnx", "int8/body.onnx", "aligner/stem.onnx", "aligner/body.onnx"}
    else:
        model = AsrModel(GOLDEN.parent / "funasr" / "nano", sessions=6, threads=2)
        names = {"nano/body.onnx"}
    try:
        before = watched.marked()
        assert crowd(model, clips[:48:2]) >= 20
    finally:
        model.close()
    assert watched.shapes == before
    assert watched.calls.keys() == before.keys() == names
    assert all(calls > 20 for calls in watched.calls.values())
    assert all(batched(before, name) for name in names)
    convolved = names if family == "fun-asr-nano" else {name for name in names if "stem" in name}
    assert all((len(before[name]) == 1) == cuda for name in convolved)


def test_speaking_meets_no_new_shape(patch: pytest.MonkeyPatch, tts_directory: Path, tmp_path: Path) -> None:
    """The codec's decoder, whose calls have many frames and many sessions, meets no new shape."""
    watched = watch(patch, fixed=True)
    model = TtsModel(tts_directory, sessions=6, threads=2, voices=tmp_path)
    try:
        before = watched.marked()
        with ThreadPoolExecutor(6) as pool:
            texts = [(TEXT, [3]), (SHORT_TEXT, None), (TEXT, None), (SHORT_TEXT, [7]), (TEXT, [40]), (SHORT_TEXT, None)]
            spoken = pool.map(lambda each: heard(say(model, each[0], SpeakOptions(seed=1), each[1])), texts)
            assert all(len(samples) for samples in spoken)
    finally:
        model.close()
    assert watched.shapes == before
    assert sum(watched.calls.values()) > 10


def test_shapes_that_are_not_fixed_are_noticed(patch: pytest.MonkeyPatch, clips: list[Clip]) -> None:
    """The same work shows new shapes if graphs do not say that they need fixed ones."""
    watched = watch(patch, fixed=False)
    model = AsrModel(GOLDEN.parent / "funasr" / "nano", sessions=6, threads=2)
    try:
        before = watched.marked()
        crowd(model, clips[:12:2])
    finally:
        model.close()
    assert len(watched.shapes["nano/body.onnx"] - before["nano/body.onnx"]) > 3
