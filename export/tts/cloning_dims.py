"""The dimensions of the two models that clone a voice: the codec's encoder and the speaker encoder."""

from dataclasses import dataclass

import numpy as np

from export.checkpoint import Checkpoint, CheckpointError
from export.dims import Section
from export.tts.codec_dims import CodecDims, factors, number

N_FFT, HOP = 1024, 256
"""The length of the Fourier transform and the hop of the speaker encoder's mels, in samples
(modeling_qwen3_tts.py:1944-1951)."""


@dataclass(frozen=True, slots=True)
class CodecEncoderDims:
    """The dimensions of the codec's encoder."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    epsilon: float
    strides: tuple[int, ...]
    """The strides of the convolutions, in the order of evaluation, without that of the last one, which is 2."""
    residual: int
    """How many residual blocks stand before each of those convolutions."""
    dilation_growth: int
    books: int
    """How many codebooks are used, semantic and acoustic ones."""
    semantic: int
    """How many of them are semantic."""


def read_codec_encoder(codec: Checkpoint, dims: CodecDims) -> CodecEncoderDims:
    """Read the dimensions of the codec's encoder.

    Raises:
        CheckpointError: a key is missing, or has a value that is not supported.
    """
    part = Section(codec, "encoder_config", codec.config)
    for key, supported in (
        ("use_causal_conv", True),
        ("use_conv_shortcut", False),
        ("pad_mode", "constant"),
        ("hidden_act", "gelu"),
        ("attention_bias", False),
        ("audio_channels", 1),
    ):
        if part.values.get(key, supported) != supported:
            raise part.error(key, f"{part.values[key]!r} is not supported, only {supported!r}")
    strides = tuple(reversed(factors(part, "upsampling_ratios")))
    if 2 * int(np.prod(strides)) != dims.frame_samples:
        raise part.error(
            "upsampling_ratios", f"make {2 * int(np.prod(strides))} samples a frame, not {dims.frame_samples}"
        )
    query = codec.tensors.get("encoder.encoder_transformer.layers.0.self_attn.q_proj.weight")
    if query is None:
        raise CheckpointError(f"{codec.directory}: the codec's encoder is missing")
    heads = part.integer("num_attention_heads")
    books = codec.config.get("encoder_valid_num_quantizers", dims.codebooks)
    if books != dims.codebooks:
        raise CheckpointError(
            f"{codec.directory}/config.json: encoder_valid_num_quantizers {books} differs from "
            f"the decoder's {dims.codebooks}"
        )
    return CodecEncoderDims(
        width=part.integer("hidden_size"),
        layers=part.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=part.integer("num_key_value_heads"),
        head_dim=query.shape[0] // heads,
        rope_theta=number(part, "rope_theta"),
        epsilon=number(part, "norm_eps"),
        strides=strides,
        residual=part.integer("num_residual_layers"),
        dilation_growth=part.integer("dilation_growth_rate"),
        books=dims.codebooks,
        semantic=part.integer("num_semantic_quantizers"),
    )


@dataclass(frozen=True, slots=True)
class SpeakerEncoderDims:
    """The dimensions of the speaker encoder. ``scales``: how many groups of channels each block but the first has."""

    bins: int
    width: int
    scales: tuple[int, ...]
    dilations: tuple[int, ...]


def read_speaker_encoder(model: Checkpoint) -> SpeakerEncoderDims:
    """Read the dimensions of the speaker encoder, groups and blocks from its tensors.

    Raises:
        CheckpointError: there is no speaker encoder, or its dilations do not fit its blocks.
    """
    prefix = "speaker_encoder.blocks."
    scales: list[int] = []
    while f"{prefix}{len(scales) + 1}.tdnn1.conv.weight" in model.tensors:
        chain = f"{prefix}{len(scales) + 1}.res2net_block.blocks."
        scales.append(1 + sum(name.startswith(chain) and name.endswith(".weight") for name in model.tensors))
    # These are the defaults of the official class; no released configuration has others.
    dilations = (model.config.get("speaker_encoder_config") or {}).get("enc_dilations", [1, 2, 3, 4, 1])
    if not scales or len(dilations) != len(scales) + 2:
        raise CheckpointError(f"{model.directory}: speaker encoder of {len(scales)} blocks, {len(dilations)} dilations")
    first, last = (model.tensors[f"speaker_encoder.{name}.weight"].shape for name in ("blocks.0.conv", "fc"))
    return SpeakerEncoderDims(first[1], last[0], tuple(scales), tuple(dilations))
