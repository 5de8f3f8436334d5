"""Graphs without weights: what NumPy fills in is what torch exports, byte for byte."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper

from export import known
from export.checkpoint import Checkpoint, open_checkpoint
from export.dims import EncoderDims, encoder_shapes, read_dims
from export.directory import encoder_part, write_encoder
from export.funasr.checkpoint import FunAsrCheckpoint
from export.funasr.dims import AdaptorDims, CtcDims, FrontDims, FunAsrDims, SenseVoiceDims
from export.funasr.dims import encoder_shapes as funasr_shapes
from export.known import Part, Template
from export.names import Precision
from export.trace import keep, parts
from export.trace.quantize import WIDE
from export.trace.releases import PRECISIONS, Kept, Mimi, mimi_shapes
from export.tts.cloning_dims import CodecEncoderDims
from export.tts.codec_dims import codec_shapes
from export.tts.dims import TtsDims, model_shapes
from tests.export.tts.checkpoints import CODEC, PREDICTOR, TALKER

pytestmark = pytest.mark.reference

TINY = EncoderDims(
    bins=128, channels=8, bands=16, width=32, layers=5, heads=2, head_dim=16, ffn=64, output=48, chunk_frames=100,
    chunk_rows=13, window_rows=104, ctc=None,
)  # fmt: skip


def part_of(kind: str) -> Kept:
    """A small part of each kind."""
    nowhere = {each: (each, Part(kind, each)) for each in PRECISIONS}
    if kind in ("encoder", "wide encoder"):
        channels = WIDE if kind == "wide encoder" else TINY.channels
        dims = EncoderDims(
            **{**{name: getattr(TINY, name) for name in TINY.__dataclass_fields__}, "channels": channels}
        )
        trace: Callable[..., Iterator[parts.Made]] = partial(
            parts.encoder_graphs, dims=dims, precisions=PRECISIONS, clip=True
        )
        return Kept(kind, nowhere, "encoder.weights", dict(encoder_shapes(dims)), trace, layered=True)
    if kind == "fun-asr":
        front = FrontDims(16000, 400, 160, 80, 7, 6, None)
        encoder = SenseVoiceDims(560, 32, 2, 48, 5, 4, 11, 0)
        whole = FunAsrDims(
            front,
            encoder,
            AdaptorDims(40, 32, 2, 2),
            CtcDims(AdaptorDims(24, 32, 2, 1), 60, 59),
            TALKER,
            3,
            True,
            False,
        )

        def trace_whole(checkpoint: Checkpoint, *, quick: bool) -> Iterator[parts.Made]:
            return parts.funasr_graphs(FunAsrCheckpoint(checkpoint, checkpoint), whole, PRECISIONS, quick=quick)

        return Kept(kind, nowhere, "encoder.weights", dict(funasr_shapes(whole)), trace_whole, layered=True)
    if kind == "codec":
        trace = partial(parts.codec_graphs, dims=CODEC, precisions=PRECISIONS)
        return Kept(kind, nowhere, "codec.weights", dict(codec_shapes(CODEC)), trace)
    if kind == "codec encoder":
        sound = CodecEncoderDims(32, 2, 2, 2, 16, 1e4, 1e-5, (4, 5, 6, 8), 1, 2, 4, 1)
        sizes = Mimi(filters=4, ffn=32, entries=64, entry=16)
        trace = partial(parts.codec_encoder_graphs, dims=sound, samples=1920)
        return Kept(kind, nowhere, "codec_encoder.weights", mimi_shapes(sound, sizes), trace)
    small = replace(PREDICTOR, width=64, ffn=96)
    speech = TtsDims(TALKER, small, CODEC, text_vocabulary=40, text_width=20, projected=True)
    trace = partial(parts.frame_graphs, dims=speech, weights=("int4", "fp16"), half=True)
    return Kept(kind, nowhere, "predictor.weights", dict(model_shapes(speech)), trace)


@cache
def traced(kind: str, seed: int, *, quick: bool) -> dict[Precision, Template]:
    """Its graphs, traced once for whoever asks."""
    return keep.templates(part_of(kind), seed, quick=quick)


@pytest.mark.parametrize("kind", ["encoder", "wide encoder", "fun-asr", "codec", "codec encoder", "frame"])
def test_recipes_make_what_is_traced_whatever_the_weights(kind: str) -> None:
    """Every recipe is followed and compared; other weights, and all layers instead of some, give the same graphs."""
    some, whole = traced(kind, 1, quick=True), traced(kind, 2, quick=False)
    assert some.keys() == whole.keys() and some
    for precision, template in some.items():
        assert keep.difference(template, whole[precision]) is None
        assert set(template.tensors) <= set(part_of(kind).shapes)


def test_a_difference_is_seen() -> None:
    """In a graph, in the plan, in a recipe."""
    made, other = (traced(kind, 1, quick=True)["fp32"] for kind in ("encoder", "wide encoder"))
    assert keep.difference(None, made) == "is not kept"
    assert "other graphs: stem.onnx" in str(keep.difference(made, other))
    wrong = known.Place(made.places[0].offset, made.places[0].kind, made.places[0].shape, "no.such.tensor")
    changed = Template("", made.weights, made.graphs, (wrong, *made.places[1:]), made.constants, made.tensors)
    assert keep.difference(changed, made) == "another plan"


def tensors(directory: Path) -> dict[tuple[str, str], bytes]:
    """Graph and name of every tensor → its values."""
    found: dict[tuple[str, str], bytes] = {}
    for path in sorted(directory.glob("*.onnx")):
        for tensor in onnx.load(path).graph.initializer:
            found[path.name, tensor.name] = numpy_helper.to_array(tensor).tobytes()
    return found


def test_an_encoder_is_the_same_filled_in_and_traced(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official classes' checkpoint, by either way, in each precision: the same graphs, the same values."""
    checkpoint = open_checkpoint(tiny.checkpoint)
    dims = read_dims(checkpoint)
    wanted = {precision: encoder_part(dims.encoder, precision) for precision in PRECISIONS}
    trace = partial(parts.encoder_graphs, dims=dims.encoder, precisions=PRECISIONS, clip=True)
    places = {precision: (precision, part) for precision, part in wanted.items()}
    kept = Kept("tiny", places, "encoder.weights", dict(encoder_shapes(dims.encoder)), trace, layered=True)
    by_torch: dict[Precision, Path] = {"fp32": tiny.model}
    for precision in set(PRECISIONS) - {"fp32"}:
        by_torch[precision] = tmp_path / "torch" / precision
        by_torch[precision].mkdir(parents=True)
        write_encoder(checkpoint, dims, by_torch[precision], precision, clip=True)
    monkeypatch.setattr(known, "GRAPHS", tmp_path)
    known.index.cache_clear()
    try:
        templates = keep.templates(kept, 5, quick=True)
        keep.write(tmp_path, {precision: known.pack(template) for precision, template in templates.items()}, "tiny")
        for precision, part in wanted.items():
            keep.enter("tiny", precision, part)
        known.index.cache_clear()
        monkeypatch.setattr(parts, "encoder_graphs", None)
        for precision in PRECISIONS:
            filled = tmp_path / "filled" / precision
            filled.mkdir(parents=True)
            write_encoder(checkpoint, dims, filled, precision, clip=True)
            assert tensors(filled) == tensors(by_torch[precision])
            assert names(filled) == names(by_torch[precision])
    finally:
        known.index.cache_clear()


def names(directory: Path) -> set[str]:
    """Files of an encoder."""
    return {path.name for path in directory.iterdir() if path.suffix in (".onnx", ".weights")}
