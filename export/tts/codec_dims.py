"""The dimensions of the codec's decoder, read from its configuration and checked against its tensors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from export.checkpoint import Checkpoint
from export.dims import Section

PRE_KERNEL, KERNEL = 3, 7
"""The lengths of the convolution's kernel after the codebooks and of all later ones
(modeling_qwen3_tts_tokenizer_v2.py:846-877)."""
DILATIONS = (1, 3, 9)
"""The dilations of the three residual units of an upsampling block (modeling_qwen3_tts_tokenizer_v2.py:655)."""

Shapes = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class CodecDims:
    """The dimensions of the codec's decoder."""

    codebooks: int
    entries: int
    """How many entries each codebook has."""
    entry_width: int
    code_width: int
    """The width of the rows that come out of the codebooks, semantic and acoustic ones projected and added."""
    latent: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    window: int
    """How many frames a query of the transformer sees, its own included. The KV state keeps one less."""
    rope_theta: float
    epsilon: float
    ratios: tuple[int, ...]
    """The factors of the upsampling between transformer and wave decoder."""
    rates: tuple[int, ...]
    """The factors by which the wave decoder's blocks upsample."""
    channels: int
    """How many channels the wave decoder begins with; every block halves them."""
    sample_rate: int

    @property
    def frame_samples(self) -> int:
        """How many samples a frame becomes."""
        return math.prod(self.ratios) * math.prod(self.rates)


def number(part: Section, name: str) -> float:
    """The value of key ``name`` of ``part``, which must be a positive number."""
    value = part.values.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise part.error(name, "missing" if value is None else f"{value!r} is no positive number")
    return float(value)


def read_codec_dims(codec: Checkpoint) -> CodecDims:
    """Read the dimensions of the codec's decoder and check every tensor of it.

    Raises:
        CheckpointError: as ``read_tts_dims``.
    """
    part = Section(codec, "decoder_config", codec.config)
    heads, width = part.integer("num_attention_heads"), part.integer("hidden_size")
    query = codec.tensors.get("decoder.pre_transformer.layers.0.self_attn.q_proj.weight")
    # hidden_size / heads would be wrong: published models have 512 / 16 and heads of 64.
    head_dim = query.shape[0] // heads if query is not None else part.integer("head_dim")
    for key, supported in (("hidden_act", "silu"), ("attention_bias", False)):
        if part.values.get(key, supported) != supported:
            raise part.error(key, f"{part.values[key]!r} is not supported, only {supported!r}")
    code_width = part.integer("codebook_dim")
    dims = CodecDims(
        codebooks=part.integer("num_quantizers"),
        entries=part.integer("codebook_size"),
        entry_width=code_width // 2,
        code_width=code_width,
        latent=part.integer("latent_dim"),
        width=width,
        layers=part.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=part.integer("num_key_value_heads"),
        head_dim=head_dim,
        ffn=part.integer("intermediate_size"),
        window=part.integer("sliding_window"),
        rope_theta=number(part, "rope_theta"),
        epsilon=number(part, "rms_norm_eps"),
        ratios=factors(part, "upsampling_ratios"),
        rates=factors(part, "upsample_rates"),
        channels=part.integer("decoder_dim"),
        sample_rate=Section(codec, "", {"": codec.config}).integer("output_sample_rate"),
    )
    if dims.heads % dims.kv_heads:
        raise part.error("num_key_value_heads", f"{dims.kv_heads} does not divide {dims.heads} heads")
    if dims.codebooks < 2:
        raise part.error("num_quantizers", "one semantic and at least one acoustic codebook are needed")
    stated = codec.config.get("decode_upsample_rate", dims.frame_samples)
    if stated != dims.frame_samples:
        raise part.error(
            "upsample_rates", f"make {dims.frame_samples} samples a frame, decode_upsample_rate is {stated}"
        )
    for name, shape in codec_shapes(dims):
        codec.require(name, *shape)
    return dims


def factors(part: Section, name: str) -> tuple[int, ...]:
    """The value of key ``name`` of ``part``, which must be a list of positive integers."""
    value = part.values.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, int) and item > 0 for item in value):
        raise part.error(name, "missing" if value is None else f"{value!r} is no list of positive integers")
    return tuple(value)


def codec_shapes(dims: CodecDims) -> Shapes:
    """Every tensor of the codec's decoder that decoding needs, and its shape."""
    for group, books in (("rvq_first", 1), ("rvq_rest", dims.codebooks - 1)):
        for index in range(books):
            book = f"decoder.quantizer.{group}.vq.layers.{index}._codebook."
            yield f"{book}embedding_sum", (dims.entries, dims.entry_width)
            yield f"{book}cluster_usage", (dims.entries,)
        yield f"decoder.quantizer.{group}.output_proj.weight", (dims.code_width, dims.entry_width, 1)
    yield from convolution("decoder.pre_conv.", dims.latent, dims.code_width, PRE_KERNEL)
    yield from transformer_shapes(dims)
    for index, ratio in enumerate(dims.ratios):
        yield f"decoder.upsample.{index}.0.conv.weight", (dims.latent, dims.latent, ratio)
        yield f"decoder.upsample.{index}.0.conv.bias", (dims.latent,)
        block = f"decoder.upsample.{index}.1."
        yield from convolution(f"{block}dwconv.", dims.latent, 1, KERNEL)
        for name, out, inputs in (("pwconv1", 4 * dims.latent, dims.latent), ("pwconv2", dims.latent, 4 * dims.latent)):
            yield f"{block}{name}.weight", (out, inputs)
            yield f"{block}{name}.bias", (out,)
        for name in ("norm.weight", "norm.bias", "gamma"):
            yield f"{block}{name}", (dims.latent,)
    yield from convolution("decoder.decoder.0.", dims.channels, dims.latent, KERNEL)
    channels = dims.channels
    for index, rate in enumerate(dims.rates, 1):
        block = f"decoder.decoder.{index}.block."
        yield from snake(f"{block}0.", channels)
        yield f"{block}1.conv.weight", (channels, channels // 2, 2 * rate)
        yield f"{block}1.conv.bias", (channels // 2,)
        channels //= 2
        for unit in range(2, 2 + len(DILATIONS)):
            yield from snake(f"{block}{unit}.act1.", channels)
            yield from convolution(f"{block}{unit}.conv1.", channels, channels, KERNEL)
            yield from snake(f"{block}{unit}.act2.", channels)
            yield from convolution(f"{block}{unit}.conv2.", channels, channels, 1)
    last = len(dims.rates) + 1
    yield from snake(f"decoder.decoder.{last}.", channels)
    yield from convolution(f"decoder.decoder.{last + 1}.", 1, channels, KERNEL)


def convolution(prefix: str, out: int, inputs: int, kernel: int) -> Shapes:
    yield f"{prefix}conv.weight", (out, inputs, kernel)
    yield f"{prefix}conv.bias", (out,)


def snake(prefix: str, channels: int) -> Shapes:
    yield f"{prefix}alpha", (channels,)
    yield f"{prefix}beta", (channels,)


def transformer_shapes(dims: CodecDims) -> Shapes:
    """The tensors of the transformer between the codebooks and the upsampling."""
    prefix = "decoder.pre_transformer."
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    for name, out, inputs in (("input_proj", dims.width, dims.latent), ("output_proj", dims.latent, dims.width)):
        yield f"{prefix}{name}.weight", (out, inputs)
        yield f"{prefix}{name}.bias", (out,)
    yield f"{prefix}norm.weight", (dims.width,)
    for layer in range(dims.layers):
        inner = f"{prefix}layers.{layer}."
        for name in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            yield f"{inner}{name}", (dims.width,)
        for name in ("self_attn_layer_scale.scale", "mlp_layer_scale.scale"):
            yield f"{inner}{name}", (dims.width,)
        yield f"{inner}self_attn.q_proj.weight", (queries, dims.width)
        yield f"{inner}self_attn.k_proj.weight", (keys, dims.width)
        yield f"{inner}self_attn.v_proj.weight", (keys, dims.width)
        yield f"{inner}self_attn.o_proj.weight", (dims.width, queries)
        yield f"{inner}mlp.gate_proj.weight", (dims.ffn, dims.width)
        yield f"{inner}mlp.up_proj.weight", (dims.ffn, dims.width)
        yield f"{inner}mlp.down_proj.weight", (dims.width, dims.ffn)
