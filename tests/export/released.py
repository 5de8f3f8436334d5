"""Checkpoints of released sizes: one with real weights but a small decoder, and files of all with headers only."""

import json
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from export.dims import AlignerDims, DecoderDims, EncoderDims, decoder_shapes, encoder_shapes
from export.tts.codec_dims import CodecDims, codec_shapes
from export.tts.dims import TtsDims, model_shapes
from tests.export.checkpoints import TEXT, tensors, train_tokenizer, write_safetensors
from tests.export.tts import checkpoints as speaking

AUDIO: dict[str, Any] = {
    "num_mel_bins": 128, "encoder_layers": 18, "encoder_attention_heads": 14, "encoder_ffn_dim": 3584, "d_model": 896,
    "n_window": 50, "n_window_infer": 800, "output_dim": 1024, "downsample_hidden_size": 480,
}  # fmt: skip
SMALL: dict[str, Any] = {**TEXT, "hidden_size": 1024, "intermediate_size": 256, "num_hidden_layers": 1, "head_dim": 64}


def released_tensors() -> dict[str, NDArray[np.float32]]:
    """Weights of a size at which every layer matters: convolutions keep the signal, and norms are near one."""
    found = tensors(AUDIO, SMALL)
    for name, values in found.items():
        if name.endswith(("norm.weight", "ln_post.weight")):
            values += 1
        elif values.ndim > 1:
            gain = 1.4 if "conv2d" in name else 1.0
            values *= 8 * gain * (values.size / len(values)) ** -0.5
    return found


def write_released(directory: Path) -> Path:
    """Write that checkpoint, in bfloat16."""
    directory.mkdir(parents=True)
    train_tokenizer().save(str(directory / "tokenizer.json"))
    write_safetensors(directory / "model.safetensors", released_tensors(), "BF16")
    thinker = {"audio_config": AUDIO, "text_config": SMALL}
    config = {"model_type": "qwen3_asr", "support_languages": ["English"], "thinker_config": thinker}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


DECODER = DecoderDims(
    width=1024, layers=28, heads=16, kv_heads=8, head_dim=128, ffn=3072, vocabulary=151936, context=65536,
    rope_theta=1e6, epsilon=1e-6, tied=True,
)  # fmt: skip
CODEC = CodecDims(
    codebooks=16, entries=2048, entry_width=256, code_width=512, latent=1024, width=512, layers=8, heads=16,
    kv_heads=16, head_dim=64, ffn=1024, window=72, rope_theta=1e4, epsilon=1e-5, ratios=(2, 2), rates=(8, 5, 4, 3),
    channels=1536, sample_rate=24000,
)  # fmt: skip


def write_hearing_header(directory: Path, *, output: int, ffn: int, aligner: bool) -> Path:
    """Write all of a Qwen3-ASR-1.7B (output 2048) or ForcedAligner-0.6B (1024) that is read before converting."""
    encoder = EncoderDims(
        bins=128, channels=480, bands=16, width=1024, layers=24, heads=16, head_dim=64, ffn=4096, output=output,
        chunk_frames=100, chunk_rows=13, window_rows=104, ctc=None,
    )  # fmt: skip
    decoder = replace(DECODER, width=output, ffn=ffn, vocabulary=152064 if aligner else 151936)
    labels = AlignerDims(classes=5000, step=0.08) if aligner else None
    shapes = [*encoder_shapes(encoder), *decoder_shapes(decoder, labels)]
    write_header(directory, ((f"thinker.{name}", shape) for name, shape in shapes))
    audio = AUDIO | {
        "encoder_layers": 24, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "d_model": 1024,
        "output_dim": output,
    }  # fmt: skip
    text = TEXT | {
        "hidden_size": output, "intermediate_size": ffn, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": decoder.vocabulary, "max_position_embeddings": 65536,
    }  # fmt: skip
    thinker: dict[str, Any] = {"audio_config": audio, "text_config": text}
    config: dict[str, Any] = {"model_type": "qwen3_asr", "thinker_config": thinker}
    if aligner:
        thinker |= {"model_type": "qwen3_forced_aligner", "classify_num": 5000}
        config |= {"timestamp_token_id": 339, "timestamp_segment_time": 80}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_speaking_header(directory: Path, *, width: int, ffn: int) -> Path:
    """Write all of a Qwen3-TTS-12Hz CustomVoice that is read before converting."""
    talker = replace(DECODER, width=width, ffn=ffn, vocabulary=3072, context=32768, tied=False)
    predictor = replace(DECODER, layers=5, vocabulary=2048, tied=False)
    dims = TtsDims(talker, predictor, CODEC, 151936, 2048, projected=width != 1024)
    write_header(directory, model_shapes(dims))
    write_header(directory / "speech_tokenizer", codec_shapes(CODEC))
    config = speaking.configuration(talker, predictor, CODEC)
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "speech_tokenizer" / "config.json").write_text(json.dumps(speaking.codec_configuration(CODEC)))
    return directory


def write_header(directory: Path, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Write a tokenizer, and a sparse file of weights that has its header and its size."""
    directory.mkdir(parents=True)
    train_tokenizer().save(str(directory / "tokenizer.json"))
    header: dict[str, Any] = {}
    at = 0
    for name, shape in shapes:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    encoded = json.dumps(header).encode()
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        file.truncate(8 + len(encoded) + at)
