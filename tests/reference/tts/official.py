"""The official classes (qwen-tts 0.1.1), imported, and checkpoints of them with random weights.

Two modules of the package's 25 Hz tokenizer, which nothing here uses, import torchaudio (no CPU wheel beside this torch)
when the package is imported. A stand-in module without contents lets that import pass.
"""

import importlib.machinery
import json
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn


def stand_in(*names: str) -> None:
    for name in names:
        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        sys.modules.setdefault(name, module)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    stand_in("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi")
    import qwen_tts  # noqa: F401
    from qwen_tts.core import Qwen3TTSTokenizerV2Config, Qwen3TTSTokenizerV2Model
    from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration

TINY_CODEC: dict[str, Any] = {
    "codebook_size": 64, "codebook_dim": 32, "latent_dim": 48, "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "intermediate_size": 48, "sliding_window": 72,
    "num_quantizers": 4, "upsample_rates": [8, 5, 4, 3], "upsampling_ratios": [2, 2], "decoder_dim": 64,
    "rope_theta": 10000, "rms_norm_eps": 1e-5, "max_position_embeddings": 8000, "attention_bias": False,
    "hidden_act": "silu", "layer_scale_initial_scale": 0.01,
}  # fmt: skip
TINY_MIMI: dict[str, Any] = {
    "hidden_size": 32, "num_filters": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 32, "codebook_size": 64, "codebook_dim": 16, "num_quantizers": 6,
    "vector_quantization_hidden_dimension": 16, "upsampling_ratios": [8, 6, 5, 4], "num_semantic_quantizers": 1,
    "use_causal_conv": True, "sliding_window": 250, "frame_rate": 12.5, "upsample_groups": 32,
}  # fmt: skip
TRUE_CODEC: dict[str, Any] = TINY_CODEC | {
    "codebook_size": 2048, "codebook_dim": 512, "latent_dim": 1024, "hidden_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64, "intermediate_size": 1024,
    "num_quantizers": 16, "decoder_dim": 1536,
}  # fmt: skip
"""The released decoder's (gabriele-mastrapasqua/qwen3-tts, speech_tokenizer_config.json)."""


def scramble(model: nn.Module, seed: int) -> None:
    """Weights that keep the signal's size from layer to layer, so that every tensor matters in the output."""
    generator = torch.Generator().manual_seed(seed)

    def normal(parameter: torch.Tensor, mean: float, deviation: float) -> None:
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation + mean)

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            last = name.rsplit(".", 1)[-1]
            if last == "cluster_usage":
                parameter.copy_(torch.rand(parameter.shape, generator=generator) * 2 + 0.5)
            elif last == "embedding_sum":
                normal(parameter, 0.0, 1.0)
            elif last in ("alpha", "beta"):
                normal(parameter, 0.0, 0.3)
            elif last in ("scale", "gamma"):
                normal(parameter, 0.4, 0.1)
            elif last == "bias":
                normal(parameter, 0.0, 0.05)
            elif "norm" in name:
                normal(parameter, 1.0, 0.1)
            elif "embedding" in name:
                normal(parameter, 0.0, 1.0)
            elif parameter.ndim == 1:
                normal(parameter, 1.0, 0.1)
            else:
                # The units' branches stay small beside what they are added to: 13 of them follow one another, and a
                # network whose signal grows tenfold turns rounding into what looks like errors.
                gain = 0.25 if ".conv2." in name else 1.0
                normal(parameter, 0.0, gain * parameter[0].numel() ** -0.5)
        for module in model.modules():
            if isinstance(module, nn.ConvTranspose1d):
                # Of [inputs, outputs, kernel], inputs · kernel / stride meet in an output.
                fan = module.weight.shape[0] * module.weight.shape[2] / module.stride[0]
                normal(module.weight, 0.0, 0.6 * fan**-0.5)


def codec_model(decoder: dict[str, Any], seed: int = 1) -> Qwen3TTSTokenizerV2Model:
    """The official codec with random weights, its output's RMS about .15."""
    config = Qwen3TTSTokenizerV2Config(
        encoder_config=TINY_MIMI, decoder_config=decoder, encoder_valid_num_quantizers=decoder["num_quantizers"]
    )
    model = Qwen3TTSTokenizerV2Model(config).eval()
    scramble(model, seed)
    codes = torch.randint(0, decoder["codebook_size"], (1, decoder["num_quantizers"], 12))
    last = model.decoder.decoder[-1].conv
    with torch.no_grad():
        last.bias.zero_()
        for _ in range(8):
            level = model.decoder(codes).std()
            last.weight.mul_(0.15 / level)
            if abs(float(level) - 0.15) < 0.02:
                break
    return model


def save_codec(model: Qwen3TTSTokenizerV2Model, directory: Path) -> Path:
    """A ``speech_tokenizer`` directory in the published layout."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(model.config.to_dict(), default=str), encoding="utf-8")
    state = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
    feature = {"feature_extractor_type": "EncodecFeatureExtractor", "sampling_rate": 24000, "feature_size": 1}
    (directory / "preprocessor_config.json").write_text(json.dumps(feature), encoding="utf-8")
    return directory
