"""The text decoder, written as a GGUF of llama.cpp's architecture ``qwen3`` without a vocabulary.

llama.cpp's own converter writes ``qwen3vl``, whose positions have four planes; llama.cpp refuses to shift a sequence of
such a model in the KV cache. In Qwen3-ASR all planes are equal, so the plain RoPE of ``qwen3`` computes the same.
Tensors stream through, a block of rows at a time (export/blocks.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from export.blocks import Block, mixture, packed, packed_size
from export.checkpoint import Checkpoint, CheckpointError
from export.dims import DecoderDims, decoder_shapes
from export.progress import SILENT, Meter
from export.stored import Stored

if TYPE_CHECKING:
    import gguf

QUANTIZATIONS = ("f32", "f16", "q8_0", "q6_k", "q4_k_m")
"""All formats of a decoder, the largest first."""
BLOCK = {"q8_0": 32, "q6_k": 256, "q4_k_m": 256}
"""How many values of a row share scales in llama.cpp's blocks; a row's length must be a multiple of it."""

LAYER_TENSORS = (
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
)
"""The names of a layer's tensors in the checkpoint and in the GGUF."""


def check_quantization(dims: DecoderDims, quantization: str) -> None:
    """Refuse a format whose blocks do not fit the decoder's row lengths.

    Raises:
        CheckpointError: a dimension is no multiple of the block; the message names it and the formats that fit.
    """
    block = BLOCK.get(quantization, 1)
    lengths = {
        "hidden_size": dims.width,
        "num_attention_heads · head_dim": dims.heads * dims.head_dim,
        "intermediate_size": dims.ffn,
    }
    bad = [f"{name} = {length}" for name, length in lengths.items() if length % block]
    if bad:
        smaller = [
            name for name in QUANTIZATIONS if all(length % BLOCK.get(name, 1) == 0 for length in lengths.values())
        ]
        raise CheckpointError(
            f"{quantization} needs row lengths that are multiples of {block}; {', '.join(bad)}. "
            f"This decoder can be {', '.join(smaller)}"
        )


def write_decoder(
    checkpoint: Checkpoint,
    dims: DecoderDims,
    path: Path,
    quantization: str,
    *,
    name: str,
    head: bool,
    meter: Meter = SILENT,
) -> None:
    """Write the decoder to the GGUF ``path``, a block of rows at a time.

    ``head`` tells whether the model has an ``lm_head`` of its own, not tied to the embeddings.

    Raises:
        CheckpointError: the format does not fit the dimensions, or a value does not fit the format.
    """
    import gguf

    check_quantization(dims, quantization)
    sources = dict(tensors(dims, head))
    stored = {target: checkpoint.tensors[source] for target, source in sources.items()}
    shapes = {target: each.shape for target, each in stored.items()}
    types = native_types(stored) or types_of(shapes, dims, quantization)
    writer = begin(path, dims, name, file_type(quantization))
    if quantization in BLOCK:
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for target, kind in types.items():
        shape = stored[target].shape
        writer.add_tensor_info(target, shape, np.dtype(np.float32), packed_size(shape, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("ab") as file:
        for target, kind in types.items():
            file.write(b"\0" * (-file.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))
            for piece in packed(stored[target], kind, sources[target]):
                file.write(piece)
                meter.wrote(len(piece))
        file.write(b"\0" * (-file.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))


def native_types(stored: Mapping[str, Stored]) -> "dict[str, gguf.GGMLQuantizationType]":
    """The formats of tensors that come from a quantised GGUF, which keep them; empty for another checkpoint."""
    if not any(isinstance(each, Block) and each.quantized for each in stored.values()):
        return {}
    return {target: each.kind for target, each in stored.items() if isinstance(each, Block)}


def decoder_size(dims: DecoderDims, quantization: str, *, head: bool) -> int:
    """About how many bytes ``write_decoder`` writes."""
    shapes = dict(decoder_shapes(replace(dims, tied=not head), None))
    sizes = {target: shapes[source] for target, source in tensors(dims, head)}
    return sum(packed_size(sizes[target], kind) for target, kind in types_of(sizes, dims, quantization).items())


def file_type(quantization: str) -> "gguf.LlamaFileType":
    """llama.cpp's number of a format."""
    import gguf

    names = {"f32": "ALL_F32"} | {name: f"MOSTLY_{name.upper()}" for name in QUANTIZATIONS[1:]}
    return gguf.LlamaFileType[names[quantization]]


def types_of(
    shapes: Mapping[str, tuple[int, ...]], dims: DecoderDims, quantization: str
) -> "dict[str, gguf.GGMLQuantizationType]":
    """The format of each tensor, in the order of the file. Norms are always float32, as in llama.cpp's own files."""
    import gguf

    if quantization not in BLOCK:
        plain, matrix = gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType[quantization.upper()]
        return {name: matrix if len(shape) > 1 else plain for name, shape in shapes.items()}
    axes = {name: len(shape) for name, shape in shapes.items()}
    return mixture(axes, quantization, lambda path: begin(path, dims, "twin", file_type("f32")))


def begin(path: Path, dims: DecoderDims, name: str, kind: "gguf.LlamaFileType") -> "gguf.GGUFWriter":
    """A writer of the GGUF ``path`` that already has the decoder's description, but no tensors."""
    import gguf

    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name(name)
    writer.add_block_count(dims.layers)
    writer.add_context_length(dims.context)
    writer.add_embedding_length(dims.width)
    writer.add_feed_forward_length(dims.ffn)
    writer.add_head_count(dims.heads)
    writer.add_head_count_kv(dims.kv_heads)
    writer.add_key_length(dims.head_dim)
    writer.add_value_length(dims.head_dim)
    writer.add_layer_norm_rms_eps(dims.epsilon)
    writer.add_rope_freq_base(dims.rope_theta)
    writer.add_file_type(kind)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(dims.vocabulary)
    return writer


def tensors(dims: DecoderDims, head: bool) -> Iterator[tuple[str, str]]:
    """The decoder's tensors: each name in the GGUF with that in the checkpoint."""
    yield "token_embd.weight", "model.embed_tokens.weight"
    for layer in range(dims.layers):
        for theirs, ours in LAYER_TENSORS:
            yield f"blk.{layer}.{ours}.weight", f"model.layers.{layer}.{theirs}.weight"
    yield "output_norm.weight", "model.norm.weight"
    if head:
        yield "output.weight", "lm_head.weight"
