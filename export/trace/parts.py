"""Tracing the graphs of each part of a model, and checking them by the rules.

A graph in int8 is made by rewriting one in float32, so each function takes all precisions that are wanted of a part and
traces once for both. Graphs come one at a time, since each holds all of its weights in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from export.checkpoint import Checkpoint
from export.dims import EncoderDims
from export.funasr.checkpoint import FunAsrCheckpoint
from export.funasr.dims import FunAsrDims, longest_rows
from export.names import BODY, CLIP, CODEC, CODEC_ENCODER, FRAME, SPEAKER_ENCODER, STEM, FrameWeights, Precision
from export.trace import funasr_encoder, graphs, rules, speaking_graphs
from export.trace.codec import build_codec
from export.trace.codec_encoder import build_codec_encoder
from export.trace.encoder import Clip, build
from export.trace.frame_graph import frame_graph
from export.trace.graphs import Traced, WeightFile
from export.trace.quantize import WIDE, quantize_graph
from export.trace.slots import keep_states
from export.trace.speaker_encoder import build_speaker_encoder
from export.trace.stack import LAYERS, grow
from export.trace.storage import store_half, store_int8
from export.trace.weights import reader
from export.tts.cloning_dims import CodecEncoderDims, SpeakerEncoderDims
from export.tts.codec_dims import CodecDims
from export.tts.dims import TtsDims
from export.tts.state import states

Precisions = Sequence[Precision]


@dataclass(frozen=True, slots=True)
class Made:
    """A graph of one precision, and the name of its file. Callers write or copy the graph before they ask for the next,
    which may rewrite it."""

    precision: Precision
    file: str
    graph: Traced


def write(made: Iterable[Made], out: Path, weights: str) -> None:
    """Write graphs of one precision into ``out``, their weights into one file."""
    with WeightFile(out / weights) as file:
        for each in made:
            file.save(each.graph, out / each.file)


def by_type(precisions: Precisions) -> Iterator[tuple[torch.dtype, list[Precision]]]:
    """The types that are traced, each with the precisions made from it. int8 comes last, since it rewrites the
    graph."""
    kinds: dict[torch.dtype, list[Precision]] = {torch.float32: ["fp32", "int8"], torch.float16: ["fp16"]}
    for kind, all_of_it in kinds.items():
        if wanted := [each for each in all_of_it if each in precisions]:
            yield kind, wanted


def finished(
    file: str,
    graph: Traced,
    precisions: Precisions,
    quantize: Callable[[Traced], None] = quantize_graph,
    *,
    window_rows: int | None = None,
) -> Iterator[Made]:
    """Give ``graph`` in each of ``precisions``, after a check by the rules."""
    for precision in precisions:
        if precision == "int8":
            quantize(graph)
        rules.check(graph.model, file, window_rows=window_rows)
        yield Made(precision, file, graph)


def encoder_graphs(
    checkpoint: Checkpoint, dims: EncoderDims, precisions: Precisions, *, clip: bool, quick: bool = False
) -> Iterator[Made]:
    """Trace stem and body of a Qwen3-ASR encoder, and the whole-clip graph if ``clip``.

    If ``quick``, only some layers are traced and the others copied, which gives the same graphs.
    """
    traced = replace(dims, layers=LAYERS) if quick else dims

    def whole_stack(graph: Traced, prefix: str) -> Traced:
        return grow(graph, prefix, dims.layers, reader(checkpoint)) if quick else graph

    for kind, wanted in by_type(precisions):
        stem, body = build(checkpoint, traced, half=kind == torch.float16)
        for whole in (False, True):
            if fitting := [each for each in wanted if (each == "int8" and dims.channels >= WIDE) == whole]:
                yield from finished(STEM, graphs.stem_graph(stem, dims, kind, whole=whole), fitting)
        yield from finished(BODY, whole_stack(graphs.body_graph(body, dims, kind), "layers."), wanted)
        if clip:
            graph = whole_stack(graphs.clip_graph(Clip(dims, stem, body), dims, kind), "body.layers.")
            yield from finished(CLIP, graph, wanted, window_rows=dims.window_rows)


def funasr_graphs(
    checkpoint: FunAsrCheckpoint, dims: FunAsrDims, precisions: Precisions, *, quick: bool = False
) -> Iterator[Made]:
    """Trace the encoder of a Fun-ASR-Nano model; ``quick`` as in :func:`encoder_graphs`."""
    inputs, ctc = dims.encoder.inputs, dims.ctc is not None
    short = replace(dims.encoder, layers=1 + LAYERS, second=LAYERS)
    traced = replace(dims, encoder=short) if quick else dims
    for kind, wanted in by_type(precisions):
        built = funasr_encoder.build(checkpoint, traced, kind == torch.float16)
        graph = graphs.whole_graph(built, inputs, longest_rows(dims), kind, ctc=ctc)
        if quick:
            for prefix, count in (("blocks.", dims.encoder.layers - 1), ("second.", dims.encoder.second)):
                graph = grow(graph, prefix, count, reader(checkpoint.whole))
        yield from finished(BODY, graph, wanted)


def codec_graphs(codec: Checkpoint, dims: CodecDims, precisions: Precisions) -> Iterator[Made]:
    """Trace the codec's decoder."""

    def store(graph: Traced) -> None:
        store_int8(graph)
        store_half(graph)

    for kind, wanted in by_type(precisions):
        built = build_codec(codec, dims, half=kind == torch.float16)
        for made in finished(CODEC, speaking_graphs.codec_graph(built, kind), wanted, store):
            if made.precision == "fp16":
                keep_states(made.graph.model.graph, {state.name: state.next for state in states(dims)})
            yield made


def codec_encoder_graphs(codec: Checkpoint, dims: CodecEncoderDims, samples: int) -> Iterator[Made]:
    """Trace the codec's encoder, in float32; a frame has so many ``samples``."""
    graph = speaking_graphs.codec_encoder_graph(build_codec_encoder(codec, dims), samples)
    yield from finished(CODEC_ENCODER, graph, ["fp32"])


def speaker_graphs(model: Checkpoint, dims: SpeakerEncoderDims) -> Iterator[Made]:
    """Trace the speaker encoder, in float32."""
    graph = speaking_graphs.speaker_encoder_graph(build_speaker_encoder(model, dims), dims.bins)
    # Its softmax pools over the whole clip, which holds no padding: there is no mask to add (rule 5).
    if found := [each for each in rules.violations(graph.model) if each.rule != 5]:
        raise rules.RuleError(SPEAKER_ENCODER, found)
    yield Made("fp32", SPEAKER_ENCODER, graph)


def frame_graphs(model: Checkpoint, dims: TtsDims, weights: Sequence[FrameWeights], *, half: bool) -> Iterator[Made]:
    """Write the predictor's frame graph, whose table of rows is float16 if ``half``. It is not checked by the rules,
    since it uses ONNX Runtime's own operators."""
    for each in weights:
        yield Made("fp16" if each == "fp16" else "fp32", FRAME, frame_graph(model, dims, each, half=half))
