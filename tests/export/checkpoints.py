"""Small checkpoints written by hand, without torch: what the exporter must read, and what it must refuse."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from export.tokenizer import NEEDED, SPLIT

AUDIO: dict[str, Any] = {
    "num_mel_bins": 128, "encoder_layers": 2, "encoder_attention_heads": 3, "encoder_ffn_dim": 64, "d_model": 48,
    "n_window": 50, "n_window_infer": 800, "output_dim": 64, "downsample_hidden_size": 8,
}  # fmt: skip
TEXT: dict[str, Any] = {
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
    "tie_word_embeddings": True,
}  # fmt: skip

Tensors = dict[str, NDArray[np.float32]]


def tensors(audio: Mapping[str, Any] = AUDIO, text: Mapping[str, Any] = TEXT) -> Tensors:
    """Random tensors of a checkpoint under the original names."""
    random = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {}
    width, channels, inner = audio["d_model"], audio["downsample_hidden_size"], 1
    tower = "thinker.audio_tower."
    for number in (1, 2, 3):
        shapes[f"{tower}conv2d{number}.weight"] = (channels, inner, 3, 3)
        shapes[f"{tower}conv2d{number}.bias"] = (channels,)
        inner = channels
    shapes[f"{tower}conv_out.weight"] = (width, channels * audio["num_mel_bins"] // 8)
    for layer in range(audio["encoder_layers"]):
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"):
            shapes |= linear(f"{tower}layers.{layer}.{name}", width, width)
        shapes |= linear(f"{tower}layers.{layer}.fc1", audio["encoder_ffn_dim"], width)
        shapes |= linear(f"{tower}layers.{layer}.fc2", width, audio["encoder_ffn_dim"])
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            shapes |= linear(f"{tower}layers.{layer}.{name}", width)
    shapes |= linear(f"{tower}ln_post", width) | linear(f"{tower}proj1", width, width)
    shapes |= linear(f"{tower}proj2", audio["output_dim"], width)
    hidden, head = text["hidden_size"], text["head_dim"]
    queries, keys = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    shapes["thinker.model.embed_tokens.weight"] = (text["vocab_size"], hidden)
    shapes["thinker.model.norm.weight"] = (hidden,)
    for layer in range(text["num_hidden_layers"]):
        prefix = f"thinker.model.layers.{layer}."
        for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
            "self_attn.q_norm": (head,), "self_attn.k_norm": (head,),
            "mlp.gate_proj": (text["intermediate_size"], hidden), "mlp.up_proj": (text["intermediate_size"], hidden),
            "mlp.down_proj": (hidden, text["intermediate_size"]),
        }.items():  # fmt: skip
            shapes[f"{prefix}{name}.weight"] = shape
    return {name: random.standard_normal(shape).astype(np.float32) / 8 for name, shape in shapes.items()}


def linear(name: str, *shape: int) -> dict[str, tuple[int, ...]]:
    """Weight and bias of a layer."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def write_checkpoint(
    directory: Path,
    values: Tensors | None = None,
    *,
    dtype: str = "F32",
    audio: Mapping[str, Any] = AUDIO,
    text: Mapping[str, Any] = TEXT,
    **extra: Any,
) -> Path:
    """A directory in the original layout; ``extra``: further keys of config.json (``thinker``: of thinker_config)."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer()
    tokenizer.save(str(directory / "tokenizer.json"))
    write_safetensors(directory / "model.safetensors", tensors(audio, text) if values is None else values, dtype)
    thinker = {"audio_config": dict(audio), "text_config": dict(text), **extra.pop("thinker", {})}
    config = {"model_type": "qwen3_asr", "support_languages": ["English"], "thinker_config": thinker, **extra}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_safetensors(path: Path, values: Mapping[str, NDArray[np.float32]], dtype: str = "F32") -> None:
    """The safetensors format: length, JSON header, data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    blobs: list[bytes] = []
    offset = 0
    for name, array in values.items():
        if dtype == "BF16":
            blob = (np.ascontiguousarray(array).view(np.uint32) >> 16).astype(np.uint16).tobytes()
        else:
            blob = array.astype({"F32": np.float32, "F16": np.float16, "F64": np.float64}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + b"".join(blobs))


def train_tokenizer() -> Tokenizer:
    """A byte-level BPE in Qwen2's format, prompt tokens last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    words = "system user assistant language English None the quick brown fox".split()
    trainer = trainers.BpeTrainer(
        vocab_size=340, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([f"{a} {b}" for a in words for b in words], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<|endoftext|>", *NEEDED)])
    return tokenizer
