"""The text decoder as a GGUF of llama.cpp's arch ``qwen3`` without a vocabulary.

Not ``qwen3vl``: its positions have four planes, and llama.cpp then refuses to shift a sequence in the KV cache. All
planes are equal in Qwen3-ASR, so the plain RoPE is the same function. f32 and f16 are written directly; the block
formats by llama.cpp's own quantiser.
"""

import ctypes
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import Checkpoint, CheckpointError
from export.dims import DecoderDims

QUANTIZATIONS = ("f32", "f16", "q8_0", "q6_k", "q4_k_m")
BLOCK = {"q8_0": 32, "q6_k": 256, "q4_k_m": 256}
"""Inputs that share a scale; every row of a quantised matrix must be a multiple of it."""

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


def check_quantization(dims: DecoderDims, quantization: str) -> None:
    """Refuse a format whose blocks do not fit the decoder's row lengths.

    Raises:
        CheckpointError: names the dimensions that do not divide.
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
    checkpoint: Checkpoint, dims: DecoderDims, path: Path, quantization: str, *, name: str, head: bool
) -> None:
    """Write ``path``. ``head``: whether an untied ``lm_head`` of the vocabulary's size is part of the model.

    Raises:
        CheckpointError: the format does not fit the dimensions, or llama.cpp's quantiser failed.
    """
    check_quantization(dims, quantization)
    if quantization in ("f32", "f16"):
        write_plain(checkpoint, dims, path, half=quantization == "f16", name=name, head=head)
        return
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        # From float32, so that a weight is rounded once.
        plain = Path(scratch) / "plain.gguf"
        write_plain(checkpoint, dims, plain, half=False, name=name, head=head)
        quantize(plain, path, quantization)


def write_plain(checkpoint: Checkpoint, dims: DecoderDims, path: Path, *, half: bool, name: str, head: bool) -> None:
    """Matrices in float16 or float32, norms always in float32, as llama.cpp has them."""
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
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if half else gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(dims.vocabulary)
    for target, source in tensors(dims, head):
        values = checkpoint.tensors[source].read()
        writer.add_tensor(target, as_half(values, source) if half and values.ndim > 1 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors(dims: DecoderDims, head: bool) -> Iterator[tuple[str, str]]:
    """GGUF names and the checkpoint's."""
    yield "token_embd.weight", "model.embed_tokens.weight"
    for layer in range(dims.layers):
        for theirs, ours in LAYER_TENSORS:
            yield f"blk.{layer}.{ours}.weight", f"model.layers.{layer}.{theirs}.weight"
    yield "output_norm.weight", "model.norm.weight"
    if head:
        yield "output.weight", "lm_head.weight"


def as_half(values: NDArray[np.float32], name: str) -> NDArray[np.float16]:
    """float16, refusing what it cannot hold instead of writing infinities."""
    peak = float(np.abs(values).max(initial=0.0))
    if peak > float(np.finfo(np.float16).max):
        raise CheckpointError(f"tensor {name} reaches {peak:g}, beyond float16: choose another format")
    return values.astype(np.float16)


def quantize(source: Path, target: Path, quantization: str) -> None:
    """llama.cpp's ``llama_model_quantize`` on ``source``."""
    import llama_cpp

    types = {
        "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
        "q6_k": llama_cpp.LLAMA_FTYPE_MOSTLY_Q6_K,
        "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M,
    }
    LOG.clear()
    llama_cpp.llama_log_set(keep_log(), ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = types[quantization]
    parameters.nthread = os.cpu_count() or 1
    status = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(target), ctypes.byref(parameters))
    if status:
        tail = b"".join(LOG).decode(errors="replace").strip().splitlines()[-3:]
        raise CheckpointError(f"llama.cpp's quantiser failed with {status}: {' / '.join(tail)}")


LOG: deque[bytes] = deque(maxlen=200)
"""The end of llama.cpp's log, for error messages."""


@cache
def keep_log() -> Any:
    """A callback that keeps llama.cpp's log off the terminal. llama.cpp holds it for good, so it must live as long."""
    import llama_cpp

    @llama_cpp.llama_log_callback
    def keep(_level: int, text: bytes, _data: ctypes.c_void_p) -> None:
        LOG.append(text)

    return keep
