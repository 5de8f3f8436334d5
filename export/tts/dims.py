"""The dimensions of a Qwen3-TTS checkpoint, read from its configuration and checked against its tensors.

None is assumed. The defaults of the official configuration classes differ from the released values (20 layers, 32 code
groups, other ids), so a missing key is an error unless the tensors tell its value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from export.checkpoint import Checkpoint, CheckpointError
from export.dims import DecoderDims, Section
from export.tts.checkpoint import TtsCheckpoint, section, view
from export.tts.codec_dims import CodecDims, Shapes, number, read_codec_dims


@dataclass(frozen=True, slots=True)
class TtsDims:
    """All of a checkpoint's dimensions."""

    talker: DecoderDims
    predictor: DecoderDims
    codec: CodecDims
    text_vocabulary: int
    text_width: int
    projected: bool
    """Whether the predictor has an input projection of its own (its width differs from the talker's)."""


def read_tts_dims(checkpoint: TtsCheckpoint) -> TtsDims:
    """Read and check every dimension.

    Raises:
        CheckpointError: a key is missing or contradicts a tensor, or a tensor is missing or of another shape.
    """
    model = checkpoint.model
    config = section(model, "talker_config")
    talker, small = Section(model, "talker_config", model.config), Section(model, "code_predictor_config", config)
    text = model.tensors.get("talker.model.text_embedding.weight")
    if text is None or len(text.shape) != 2:
        raise CheckpointError(f"{model.directory}: tensor talker.model.text_embedding.weight is missing or no matrix")
    groups = talker.integer("num_code_groups")
    if small.values.get("num_code_groups", groups) != groups:
        raise small.error("num_code_groups", f"{small.values['num_code_groups']} differs from talker_config's {groups}")
    codec = read_codec_dims(checkpoint.codec)
    if codec.codebooks != groups:
        raise talker.error("num_code_groups", f"{groups} differs from the codec's num_quantizers {codec.codebooks}")
    entries = small.integer("vocab_size")
    if entries != codec.entries:
        raise small.error("vocab_size", f"{entries} differs from the codec's codebook_size {codec.entries}")
    dims = TtsDims(
        talker=read_stack(talker, talker_view(model)),
        predictor=read_stack(small, predictor_view(model)),
        codec=codec,
        text_vocabulary=text.shape[0],
        text_width=text.shape[1],
        projected="talker.code_predictor.small_to_mtp_projection.weight" in model.tensors,
    )
    if not dims.projected and dims.predictor.width != dims.talker.width:
        raise small.error(
            "hidden_size", f"{dims.predictor.width} differs from the talker's, and there is no projection"
        )
    for name, shape in model_shapes(dims):
        model.require(name, *shape)
    return dims


def talker_view(model: Checkpoint) -> Checkpoint:
    """The talker's layers, with the tensors' names of a Qwen3 language model."""
    names = {
        "talker.model.layers.": "model.layers.",
        "talker.model.norm.": "model.norm.",
        "talker.model.codec_embedding.": "model.embed_tokens.",
        "talker.codec_head.": "lm_head.",
    }
    return view(model, names)


def predictor_view(model: Checkpoint) -> Checkpoint:
    """The predictor's layers, with the tensors' names of a Qwen3 language model. It has a table and a head for each
    codebook, which the view leaves out."""
    prefix = "talker.code_predictor.model."
    return view(model, {f"{prefix}layers.": "model.layers.", f"{prefix}norm.": "model.norm."})


def read_stack(stack: Section, tensors: Checkpoint) -> DecoderDims:
    """Read the dimensions of talker or predictor, each a Qwen3 decoder with norms on queries and keys.

    All three planes of the talker's multimodal RoPE are always equal (modeling_qwen3_tts.py:1794-1800), which makes it
    the plain one.
    """
    heads = stack.integer("num_attention_heads")
    norm = tensors.tensors.get("model.layers.0.self_attn.q_norm.weight")
    # hidden_size / heads would be wrong: published models have 1024 / 16 and heads of 128.
    head_dim = norm.shape[0] if norm is not None else stack.integer("head_dim")
    for key, supported in (("hidden_act", "silu"), ("attention_bias", False), ("use_sliding_window", False)):
        if stack.values.get(key, supported) != supported:
            raise stack.error(key, f"{stack.values[key]!r} is not supported, only {supported!r}")
    rope: Mapping[str, Any] = stack.values.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) not in ("default", "mrope"):
        raise stack.error("rope_scaling", f"{rope.get('rope_type', rope.get('type'))!r} is not supported")
    return DecoderDims(
        width=stack.integer("hidden_size"),
        layers=stack.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=stack.integer("num_key_value_heads"),
        head_dim=head_dim,
        ffn=stack.integer("intermediate_size"),
        vocabulary=stack.integer("vocab_size"),
        context=stack.integer("max_position_embeddings"),
        rope_theta=number(stack, "rope_theta"),
        epsilon=number(stack, "rms_norm_eps"),
        tied=False,
    )


def model_shapes(dims: TtsDims) -> Shapes:
    """Every tensor of talker and predictor and its shape."""
    talker, small = dims.talker, dims.predictor
    yield from stack_shapes("talker.model.", talker)
    yield from stack_shapes("talker.code_predictor.model.", small)
    yield "talker.model.text_embedding.weight", (dims.text_vocabulary, dims.text_width)
    yield "talker.model.codec_embedding.weight", (talker.vocabulary, talker.width)
    yield "talker.codec_head.weight", (talker.vocabulary, talker.width)
    for name, out in (("linear_fc1", dims.text_width), ("linear_fc2", talker.width)):
        yield f"talker.text_projection.{name}.weight", (out, dims.text_width)
        yield f"talker.text_projection.{name}.bias", (out,)
    for index in range(dims.codec.codebooks - 1):
        yield f"talker.code_predictor.model.codec_embedding.{index}.weight", (small.vocabulary, talker.width)
        yield f"talker.code_predictor.lm_head.{index}.weight", (small.vocabulary, small.width)
    if dims.projected:
        yield "talker.code_predictor.small_to_mtp_projection.weight", (small.width, talker.width)
        yield "talker.code_predictor.small_to_mtp_projection.bias", (small.width,)


def stack_shapes(prefix: str, dims: DecoderDims) -> Shapes:
    """The layers' tensors of a Qwen3 decoder, and their shapes."""
    queries, keys = dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim
    for layer in range(dims.layers):
        inner = f"{prefix}layers.{layer}."
        yield f"{inner}input_layernorm.weight", (dims.width,)
        yield f"{inner}post_attention_layernorm.weight", (dims.width,)
        yield f"{inner}self_attn.q_proj.weight", (queries, dims.width)
        yield f"{inner}self_attn.k_proj.weight", (keys, dims.width)
        yield f"{inner}self_attn.v_proj.weight", (keys, dims.width)
        yield f"{inner}self_attn.o_proj.weight", (dims.width, queries)
        yield f"{inner}self_attn.q_norm.weight", (dims.head_dim,)
        yield f"{inner}self_attn.k_norm.weight", (dims.head_dim,)
        yield f"{inner}mlp.gate_proj.weight", (dims.ffn, dims.width)
        yield f"{inner}mlp.up_proj.weight", (dims.ffn, dims.width)
        yield f"{inner}mlp.down_proj.weight", (dims.width, dims.ffn)
    yield f"{prefix}norm.weight", (dims.width,)
