"""A Qwen3-TTS checkpoint written by hand, without torch: what the exporter must read, and what it must refuse."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from export.dims import DecoderDims
from export.tts.codec_dims import CodecDims, codec_shapes
from export.tts.dims import TtsDims, model_shapes
from tests.export.checkpoints import write_safetensors

CODEC = CodecDims(
    codebooks=3, entries=16, entry_width=4, code_width=8, latent=8, width=12, layers=1, heads=3, kv_heads=3, head_dim=8,
    ffn=16, window=72, rope_theta=1e4, epsilon=1e-5, ratios=(2, 2), rates=(8, 5, 4, 3), channels=16, sample_rate=24000,
)  # fmt: skip
TALKER = DecoderDims(
    width=32, layers=2, heads=4, kv_heads=2, head_dim=16, ffn=48, vocabulary=64, context=256, rope_theta=1e6,
    epsilon=1e-6, tied=False,
)  # fmt: skip
PREDICTOR = DecoderDims(
    width=24, layers=1, heads=2, kv_heads=1, head_dim=16, ffn=32, vocabulary=16, context=128, rope_theta=1e4,
    epsilon=1e-6, tied=False,
)  # fmt: skip
DIMS = TtsDims(TALKER, PREDICTOR, CODEC, text_vocabulary=40, text_width=20, projected=True)


def stack(dims: DecoderDims, books: int) -> dict[str, Any]:
    return {
        "hidden_size": dims.width, "num_hidden_layers": dims.layers, "num_attention_heads": dims.heads,
        "num_key_value_heads": dims.kv_heads, "head_dim": dims.head_dim, "intermediate_size": dims.ffn,
        "vocab_size": dims.vocabulary, "max_position_embeddings": dims.context, "rope_theta": dims.rope_theta,
        "rms_norm_eps": dims.epsilon, "num_code_groups": books,
    }  # fmt: skip


def configuration(
    talker_dims: DecoderDims = TALKER, predictor: DecoderDims = PREDICTOR, codec: CodecDims = CODEC
) -> dict[str, Any]:
    """The config.json of the model."""
    talker = stack(talker_dims, codec.codebooks) | {
        "code_predictor_config": stack(predictor, codec.codebooks),
        "codec_eos_token_id": 18, "codec_pad_id": 16, "codec_bos_id": 17,
        "codec_nothink_id": 19, "codec_think_id": 20, "codec_think_bos_id": 21, "codec_think_eos_id": 22,
        "codec_language_id": {"english": 23, "sichuan_dialect": 24}, "spk_id": {"ryan": 25, "eric": 26},
        "spk_is_dialect": {"ryan": False, "eric": "sichuan_dialect"},
    }  # fmt: skip
    return {
        "model_type": "qwen3_tts", "tokenizer_type": "qwen3_tts_tokenizer_12hz", "tts_model_type": "custom_voice",
        "tts_model_size": "0b6", "talker_config": talker,
        "tts_pad_token_id": 37, "tts_bos_token_id": 38, "tts_eos_token_id": 39,
    }  # fmt: skip


def codec_configuration(dims: CodecDims = CODEC) -> dict[str, Any]:
    """The config.json of the codec."""
    decoder = {
        "codebook_size": dims.entries, "codebook_dim": dims.code_width, "latent_dim": dims.latent,
        "hidden_size": dims.width, "num_hidden_layers": dims.layers, "num_attention_heads": dims.heads,
        "num_key_value_heads": dims.kv_heads, "head_dim": dims.head_dim, "intermediate_size": dims.ffn,
        "sliding_window": dims.window, "rope_theta": dims.rope_theta, "rms_norm_eps": dims.epsilon,
        "num_quantizers": dims.codebooks, "upsampling_ratios": [*dims.ratios], "upsample_rates": [*dims.rates],
        "decoder_dim": dims.channels,
    }  # fmt: skip
    return {"model_type": "qwen3_tts_tokenizer_12hz", "decoder_config": decoder, "output_sample_rate": 24000}


def write_tts_checkpoint(
    directory: Path,
    *,
    config: Mapping[str, Any] | None = None,
    codec: Mapping[str, Any] | None = None,
    without: tuple[str, ...] = (),
    reshaped: Mapping[str, tuple[int, ...]] | None = None,
    dtype: str = "F32",
) -> Path:
    """Write a checkpoint of DIMS; ``without`` and ``reshaped`` spoil tensors."""
    random = np.random.default_rng(0)
    for folder, shapes, settings in (
        (directory, model_shapes(DIMS), config or configuration()),
        (directory / "speech_tokenizer", codec_shapes(CODEC), codec or codec_configuration()),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = {name: (reshaped or {}).get(name, shape) for name, shape in shapes if name not in without}
        values = {name: (random.standard_normal(shape) / 8).astype(np.float32) for name, shape in wanted.items()}
        write_safetensors(folder / "model.safetensors", values, dtype)
        (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory
