"""The dimensions of the released models, and random checkpoints of them to trace with."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import Checkpoint, Stored
from export.dims import DecoderDims, EncoderDims, encoder_shapes
from export.directory import encoder_part
from export.funasr import directory as funasr
from export.funasr.checkpoint import FunAsrCheckpoint
from export.funasr.dims import AdaptorDims, CtcDims, FrontDims, FunAsrDims, SenseVoiceDims
from export.funasr.dims import encoder_shapes as funasr_shapes
from export.known import Part, part
from export.names import (
    CODEC_ENCODER_WEIGHTS,
    CODEC_WEIGHTS,
    FRAME_WEIGHTS,
    SPEAKER_ENCODER_WEIGHTS,
    WEIGHTS,
    Precision,
)
from export.trace import parts
from export.tts.cloning_dims import CodecEncoderDims, SpeakerEncoderDims
from export.tts.codec_dims import CodecDims, codec_shapes
from export.tts.dims import TtsDims, model_shapes
from export.tts.directory import codec_part, frame_part

Shapes = Mapping[str, tuple[int, ...]]

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8")

ENCODERS = {
    "qwen3-asr-0.6b": (896, 18, 3584, 1024),
    "qwen3-asr-1.7b": (1024, 24, 4096, 2048),
    "qwen3-forced-aligner-0.6b": (1024, 24, 4096, 1024),
}
"""Width, layers, inner width and output of the audio encoders (antirez/qwen-asr, MODEL.md:25-38)."""

STACK = {"heads": 16, "kv_heads": 8, "head_dim": 128, "rope_theta": 1e6, "epsilon": 1e-6, "tied": False}
"""The dimensions that all released decoders share."""

SPEAKER_CHANNELS, SPEAKER_KERNELS, SPEAKER_INNER = (512, 512, 512, 512, 1536), (5, 3, 3, 3, 1), 128
"""Channels and kernels of the speaker encoder's blocks, and its inner width (qwen-tts 0.1.1,
configuration_qwen3_tts.py, whose defaults every Base checkpoint keeps)."""


@dataclass(frozen=True, slots=True)
class Mimi:
    """Those sizes of the released codec's encoder that its graph takes from the weights, not from the configuration."""

    filters: int = 64
    kernel: int = 7
    residual_kernel: int = 3
    last_kernel: int = 3
    compress: int = 2
    ffn: int = 2048
    entries: int = 2048
    entry: int = 256


@dataclass(frozen=True, slots=True)
class Noise(Stored):
    """A tensor that lies in no file, with random values that depend on its name and a seed."""

    name: str = ""
    seed: int = 0

    def read(self) -> NDArray[np.float32]:
        """The values: small ones around 0, and positive ones for the counts of a codebook."""
        key = hashlib.sha256(f"{self.seed} {self.name}".encode()).digest()
        random = np.random.default_rng(int.from_bytes(key[:8], "little"))
        values = random.random(self.shape, np.float32) * np.float32(0.1) - np.float32(0.05)
        return np.abs(values) + np.float32(0.5) if self.name.endswith("cluster_usage") else values


@dataclass(frozen=True, slots=True)
class Kept:
    """A part of a released model: where it is kept, and how it is traced from a checkpoint."""

    model: str
    folders: Mapping[Precision, tuple[str, Part]]
    """For each precision the folder in the archive, and the part."""
    weights: str
    shapes: Shapes
    trace: Callable[..., Iterator[parts.Made]]
    """Traces the graphs from a checkpoint. It has an argument ``quick`` if ``layered``."""
    layered: bool = False

    def checkpoint(self, seed: int) -> Checkpoint:
        """A checkpoint of random tensors with all that the part needs."""
        tensors = {name: Noise(Path(), 0, "F32", shape, name, seed) for name, shape in self.shapes.items()}
        return Checkpoint(Path(self.model), "original", {}, tensors)


def released() -> Iterator[Kept]:
    """Every part of every released model."""
    for model, (width, layers, ffn, output) in ENCODERS.items():
        dims = EncoderDims(
            bins=128, channels=480, bands=16, width=width, layers=layers, heads=width // 64, head_dim=64, ffn=ffn,
            output=output, chunk_frames=100, chunk_rows=13, window_rows=104, ctc=None,
        )  # fmt: skip
        folders = {each: (each, encoder_part(dims, each)) for each in PRECISIONS}
        trace = partial(parts.encoder_graphs, dims=dims, precisions=PRECISIONS, clip=True)
        yield Kept(model, folders, WEIGHTS, dict(encoder_shapes(dims)), trace, layered=True)
    yield from speaking()
    yield from funasr_parts()


def speaking() -> Iterator[Kept]:
    """The parts of Qwen3-TTS-12Hz."""
    model = "qwen3-tts-12hz"
    codec = CodecDims(
        codebooks=16, entries=2048, entry_width=256, code_width=512, latent=1024, width=512, layers=8, heads=16,
        kv_heads=16, head_dim=64, ffn=1024, window=72, rope_theta=10000.0, epsilon=1e-5, ratios=(2, 2),
        rates=(8, 5, 4, 3), channels=1536, sample_rate=24000,
    )  # fmt: skip
    folders = {each: (each, codec_part(codec, each)) for each in PRECISIONS}
    trace = partial(parts.codec_graphs, dims=codec, precisions=PRECISIONS)
    yield Kept(model, folders, CODEC_WEIGHTS, dict(codec_shapes(codec)), trace)
    encoder = CodecEncoderDims(
        width=512, layers=8, heads=8, kv_heads=8, head_dim=64, rope_theta=10000.0, epsilon=1e-5, strides=(4, 5, 6, 8),
        residual=1, dilation_growth=2, books=16, semantic=1,
    )  # fmt: skip
    trace = partial(parts.codec_encoder_graphs, dims=encoder, samples=codec.frame_samples)
    found = part("codec-encoder", dims=encoder, samples=codec.frame_samples)
    yield Kept(model, {"fp32": ("codec-encoder", found)}, CODEC_ENCODER_WEIGHTS, mimi_shapes(encoder, Mimi()), trace)
    for size, width in (("0.6b", 1024), ("1.7b", 2048)):
        speaker = SpeakerEncoderDims(128, width, (8, 8, 8), (1, 2, 3, 4, 1))
        folder = f"speaker-{size}", part("speaker-encoder", dims=speaker)
        trace = partial(parts.speaker_graphs, dims=speaker)
        yield Kept(model, {"fp32": folder}, SPEAKER_ENCODER_WEIGHTS, dict(speaker_shapes(speaker)), trace)
    # The 1.7B model has the same graph, since the rows of its table are projected already.
    talker = DecoderDims(width=1024, layers=28, ffn=3072, vocabulary=3072, context=32768, **STACK)
    small = DecoderDims(width=1024, layers=5, ffn=3072, vocabulary=2048, context=65536, **STACK)
    speech = TtsDims(talker, small, codec, 151936, 2048, projected=False)
    trace = partial(parts.frame_graphs, dims=speech, weights=("int4", "fp16"), half=True)
    folders: dict[Precision, tuple[str, Part]] = {
        "fp32": ("frame", frame_part(speech, "int4", half=True)),
        "fp16": ("frame-fp16", frame_part(speech, "fp16", half=True)),
    }
    yield Kept(model, folders, FRAME_WEIGHTS, dict(model_shapes(speech)), trace)


def funasr_parts() -> Iterator[Kept]:
    """The encoder of Fun-ASR-Nano and of its multilingual sister, with and without a CTC head."""
    front = FrontDims(sample_rate=16000, frame_length=400, hop=160, bins=80, stacked=7, step=6, cmvn=None)
    encoder = SenseVoiceDims(inputs=560, width=512, heads=4, ffn=2048, layers=50, second=20, kernel=11, shift=0)
    decoder = DecoderDims(width=1024, layers=28, ffn=3072, vocabulary=151936, context=40960, **(STACK | {"tied": True}))
    ctc = CtcDims(AdaptorDims(inner=2048, width=512, heads=8, layers=5), 60515, 60514)
    for prefix, head in (("", None), ("ctc-", ctc)):
        dims = FunAsrDims(front, encoder, AdaptorDims(2048, 1024, 8, 2), head, decoder, 3, True, False)

        def trace(checkpoint: Checkpoint, *, quick: bool, dims: FunAsrDims = dims) -> Iterator[parts.Made]:
            return parts.funasr_graphs(FunAsrCheckpoint(checkpoint, checkpoint), dims, PRECISIONS, quick=quick)

        folders = {each: (f"{prefix}{each}", funasr.encoder_part(dims, each)) for each in PRECISIONS}
        yield Kept("fun-asr-nano", folders, WEIGHTS, dict(funasr_shapes(dims)), trace, layered=True)


def mimi_shapes(dims: CodecEncoderDims, sizes: Mimi) -> Shapes:
    """The tensors of the codec's encoder (transformers 4.57, models/mimi/modeling_mimi.py)."""
    found: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, out: int, inputs: int, kernel: int) -> None:
        found[f"{name}.conv.weight"], found[f"{name}.conv.bias"] = (out, inputs, kernel), (out,)

    layers, width, inner = "encoder.encoder.layers.", sizes.filters, dims.width
    convolution(f"{layers}0", width, 1, sizes.kernel)
    place = 1
    for stride in dims.strides:
        for _ in range(dims.residual):
            convolution(f"{layers}{place}.block.1", width // sizes.compress, width, sizes.residual_kernel)
            convolution(f"{layers}{place}.block.3", width, width // sizes.compress, 1)
            place += 1
        convolution(f"{layers}{place + 1}", 2 * width, width, 2 * stride)  # An activation stands between.
        place, width = place + 2, 2 * width
    convolution(f"{layers}{place + 1}", inner, width, sizes.last_kernel)
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    for index in range(dims.layers):
        layer = f"encoder.encoder_transformer.layers.{index}."
        for name, out, into in (("q", queries, inner), ("k", keys, inner), ("v", keys, inner), ("o", inner, queries)):
            found[f"{layer}self_attn.{name}_proj.weight"] = (out, into)
        found[f"{layer}mlp.fc1.weight"], found[f"{layer}mlp.fc2.weight"] = (sizes.ffn, inner), (inner, sizes.ffn)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{layer}{name}.weight"] = found[f"{layer}{name}.bias"] = (inner,)
        for name in ("self_attn_layer_scale", "mlp_layer_scale"):
            found[f"{layer}{name}.scale"] = (inner,)
    found["encoder.downsample.conv.weight"] = (inner, inner, 4)
    for kind, books in (("semantic", dims.semantic), ("acoustic", dims.books - dims.semantic)):
        prefix = f"encoder.quantizer.{kind}_residual_vector_quantizer."
        found[f"{prefix}input_proj.weight"] = (sizes.entry, inner, 1)
        for book in range(books):
            found[f"{prefix}layers.{book}.codebook.embed_sum"] = (sizes.entries, sizes.entry)
            found[f"{prefix}layers.{book}.codebook.cluster_usage"] = (sizes.entries,)
    return found


def speaker_shapes(dims: SpeakerEncoderDims) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The tensors of the speaker encoder."""

    def convolution(name: str, out: int, inputs: int, kernel: int = 1) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield f"speaker_encoder.{name}.weight", (out, inputs, kernel)
        yield f"speaker_encoder.{name}.bias", (out,)

    channels, kernels, inner = SPEAKER_CHANNELS, SPEAKER_KERNELS, SPEAKER_INNER
    yield from convolution("blocks.0.conv", channels[0], dims.bins, kernels[0])
    for place, scale in enumerate(dims.scales, 1):
        block, width = f"blocks.{place}", channels[place]
        yield from convolution(f"{block}.tdnn1.conv", width, channels[place - 1])
        for link in range(scale - 1):
            name = f"{block}.res2net_block.blocks.{link}.conv"
            yield from convolution(name, width // scale, width // scale, kernels[place])
        yield from convolution(f"{block}.tdnn2.conv", width, width)
        yield from convolution(f"{block}.se_block.conv1", inner, width)
        yield from convolution(f"{block}.se_block.conv2", width, inner)
    last = channels[-1]
    yield from convolution("mfa.conv", last, sum(channels[1:-1]), kernels[-1])
    yield from convolution("asp.tdnn.conv", inner, 3 * last)
    yield from convolution("asp.conv", last, inner)
    yield from convolution("fc", dims.width, 2 * last)
