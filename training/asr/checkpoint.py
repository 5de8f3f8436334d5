"""Checkpoints in the official original layout: config.json, model.safetensors and tokenizer.json.

The extra top-level key "hearsay" in config.json says what the runtime must know and the official config does not hold:
the mel floor, the leading space of transcripts, the blank of the CTC head (`ctc.weight` [V + 1, d], `ctc.bias` [V +
1]), whether there are positions of each row of a window (`thinker.audio_tower.positions` [rows, d]).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training.asr.config import Shape
from training.checkpoint import CONFIG, TOKENIZER, WEIGHTS, load_weights, save_folder

# The released decoders have these constants.
ROPE_THETA, RMS_EPSILON = 1e6, 1e-6
# The log10 of power below which all is silence. The official floor hangs on a clip's maximum; with a fixed one a frame
# depends on its own 400 samples only (spectrogram.py).
MEL_FLOOR = -6.5


def official_config(name: str, shape: Shape, tokenizer: Tokenizer) -> dict[str, Any]:
    """Give the config.json of a `shape`, with the constants of the released models."""
    audio = dict(
        model_type="qwen3_asr_audio_encoder",
        num_mel_bins=shape.mel_bins,
        d_model=shape.d_model,
        encoder_layers=shape.encoder_layers,
        encoder_attention_heads=shape.encoder_heads,
        encoder_ffn_dim=shape.encoder_ffn,
        output_dim=shape.hidden,
        downsample_hidden_size=shape.conv_channels,
        n_window=shape.chunk_frames // 2,
        n_window_infer=shape.window_frames,
        max_source_positions=1500,
        conv_chunksize=500,
        activation_function="gelu",
        scale_embedding=False,
    )
    text = dict(
        model_type="qwen3",
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.decoder_ffn,
        num_hidden_layers=shape.decoder_layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        hidden_act="silu",
        max_position_embeddings=4096,
        rms_norm_eps=RMS_EPSILON,
        rope_theta=ROPE_THETA,
        tie_word_embeddings=True,
    )
    ids = {
        "audio_token_id": "<|audio_pad|>",
        "audio_start_token_id": "<|audio_start|>",
        "audio_end_token_id": "<|audio_end|>",
    }
    return dict(
        architectures=["Qwen3ASRForConditionalGeneration"],
        model_type="qwen3_asr",
        support_languages=["English"],
        thinker_config=dict(
            model_type="qwen3_asr_thinker",
            audio_config=audio,
            text_config=text,
            **{key: tokenizer.token_to_id(token) for key, token in ids.items()},
        ),
        hearsay=dict(
            name=name,
            licence="Apache-2.0",
            mel_floor=dict(kind="fixed", log10=MEL_FLOOR),
            text=dict(leading_space=True),
            ctc=dict(blank=shape.vocab),
            placed=shape.placed,
        ),
    )


def shape_of(config: Mapping[str, Any]) -> Shape:
    """Give the shape that a config.json tells."""
    audio, text = (config["thinker_config"][f"{side}_config"] for side in ("audio", "text"))
    return Shape(
        vocab=text["vocab_size"], mel_bins=audio["num_mel_bins"], conv_channels=audio["downsample_hidden_size"],
        d_model=audio["d_model"], encoder_layers=audio["encoder_layers"],
        encoder_heads=audio["encoder_attention_heads"], encoder_ffn=audio["encoder_ffn_dim"],
        hidden=text["hidden_size"], decoder_layers=text["num_hidden_layers"], heads=text["num_attention_heads"],
        kv_heads=text["num_key_value_heads"], head_dim=text["head_dim"], decoder_ffn=text["intermediate_size"],
        chunk_frames=2 * audio["n_window"], window_frames=audio["n_window_infer"],
        placed=config.get("hearsay", {}).get("placed", False),
    )  # fmt: skip


def load_checkpoint(folder: Path) -> tuple[Shape, dict[str, torch.Tensor]]:
    """Read the shape and the weights (float32) of a checkpoint folder."""
    return shape_of(json.loads((folder / CONFIG).read_text())), load_weights(folder / WEIGHTS)


def save_checkpoint(
    name: str, shape: Shape, weights: Mapping[str, torch.Tensor], tokenizer_folder: Path, folder: Path
) -> None:
    """Write the whole checkpoint folder."""
    tokenizer = Tokenizer.from_file(str(tokenizer_folder / TOKENIZER))
    save_folder(folder, official_config(name, shape, tokenizer), weights, tokenizer_folder)
