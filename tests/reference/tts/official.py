"""The official classes (qwen-tts 0.1.1), imported, and checkpoints of them with random weights.

Two modules of the package's 25 Hz tokenizer, which nothing here uses, import torchaudio (no CPU wheel beside this
torch) when the package is imported. A stand-in module without contents lets that import pass.
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
from tokenizers import pre_tokenizers
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
TINY_SPEAKER: dict[str, Any] = {
    "mel_dim": 128, "enc_channels": [32, 32, 32, 32, 96], "enc_kernel_sizes": [5, 3, 3, 3, 1],
    "enc_dilations": [1, 2, 3, 4, 1], "enc_attention_channels": 16, "enc_res2net_scale": 8, "enc_se_channels": 16,
    "sample_rate": 24000,
}  # fmt: skip
SMALL_CODEC: dict[str, Any] = TINY_CODEC | {"num_hidden_layers": 1, "upsample_rates": [480], "decoder_dim": 16}
"""One block of another rate: quick to export where the codec is not what is looked at."""
TRUE_CODEC: dict[str, Any] = TINY_CODEC | {
    "codebook_size": 2048, "codebook_dim": 512, "latent_dim": 1024, "hidden_size": 512, "num_hidden_layers": 8,
    "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 64, "intermediate_size": 1024,
    "num_quantizers": 16, "decoder_dim": 1536,
}  # fmt: skip
"""The released decoder's (gabriele-mastrapasqua/qwen3-tts, speech_tokenizer_config.json)."""


CONTROL = {
    "codec_eos_token_id": 2, "codec_pad_id": 0, "codec_bos_id": 1, "codec_think_id": 6, "codec_nothink_id": 7,
    "codec_think_bos_id": 8, "codec_think_eos_id": 9,
}  # fmt: skip
"""Places of the control ids after the codes; 1024 such ids follow, as the official suppression wants."""

TINY_TALKER: dict[str, Any] = {
    "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 160, "text_hidden_size": 64, "rope_theta": 1000000, "max_position_embeddings": 2048,
}  # fmt: skip
TINY_PREDICTOR: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "intermediate_size": 96, "rope_theta": 1000000, "max_position_embeddings": 512,
}  # fmt: skip
"""Narrower than the talker, as in the 1.7B checkpoints: it has a projection."""
WIDE_TALKER = TINY_TALKER | {"hidden_size": 256, "num_hidden_layers": 2, "head_dim": 64, "intermediate_size": 512}
WIDE_PREDICTOR = TINY_PREDICTOR | {"hidden_size": 256, "head_dim": 64, "intermediate_size": 512, "rope_theta": 10000}
"""As wide as the talker, as in the 0.6B checkpoints; rows fit every quantisation."""


def tts_config(talker: dict[str, Any], predictor: dict[str, Any], codec: dict[str, Any], kind: str, size: str) -> Any:
    """A configuration of the official class."""
    entries, groups = codec["codebook_size"], codec["num_quantizers"]
    vocabulary = entries + 1024
    tokens = tokenizer_vocabulary()
    stack = {"rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": False, "num_code_groups": groups}
    section = head_dim(talker) // 2
    rope = {"interleaved": True, "mrope_section": [section - 2 * (section // 3), section // 3, section // 3]}
    return Qwen3TTSConfig(
        talker_config={
            **stack,
            **talker,
            "vocab_size": vocabulary,
            "text_vocab_size": len(tokens),
            "rope_scaling": rope | {"rope_type": "default", "type": "default"},
            **{key: entries + place for key, place in CONTROL.items()},
            "codec_language_id": {"english": entries + 20, "chinese": entries + 21, "beijing_dialect": entries + 22},
            "spk_id": {"ryan": entries + 30, "dylan": entries + 31} if kind == "custom_voice" else {},
            "spk_is_dialect": {"ryan": False, "dylan": "beijing_dialect"} if kind == "custom_voice" else {},
            "code_predictor_config": {**stack, **predictor, "vocab_size": entries},
        },
        speaker_encoder_config=TINY_SPEAKER | {"enc_dim": talker["hidden_size"]},
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size=size,
        tts_model_type=kind,
        im_start_token_id=tokens["<|im_start|>"],
        im_end_token_id=tokens["<|im_end|>"],
        tts_pad_token_id=tokens["<tts_pad>"],
        tts_bos_token_id=tokens["<tts_bos>"],
        tts_eos_token_id=tokens["<tts_eos>"],
    )


def head_dim(stack: dict[str, Any]) -> int:
    return stack["head_dim"]


def tts_model(config: Any, seed: int = 3) -> Any:
    """The official model with random weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Qwen3TTSForConditionalGeneration(config).eval()
    scramble(model, seed)
    # Random weights would end after a few frames.
    with torch.no_grad():
        model.talker.codec_head.weight[config.talker_config.codec_eos_token_id] = 0
    return model


def save_tts(model: Any, codec: Qwen3TTSTokenizerV2Model, directory: Path) -> Path:
    """A checkpoint directory in the published layout, its weights in two shards."""
    save_codec(codec, directory / "speech_tokenizer")
    config = model.config.to_dict() | {"model_type": "qwen3_tts"}
    (directory / "config.json").write_text(json.dumps(config, default=str), encoding="utf-8")
    state = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    names = sorted(state)
    files: dict[str, str] = {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{part:05}-of-00002.safetensors"
        save_file({name: state[name] for name in chosen}, directory / file, metadata={"format": "pt"})
        files |= dict.fromkeys(chosen, file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}), encoding="utf-8")
    (directory / "generation_config.json").write_text(json.dumps({"temperature": 0.8, "max_new_tokens": 900}))
    vocabulary = tokenizer_vocabulary()
    plain = {token: identity for token, identity in vocabulary.items() if token not in SPECIAL}
    (directory / "vocab.json").write_text(json.dumps(plain, ensure_ascii=False), encoding="utf-8")
    (directory / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    added = {str(vocabulary[token]): {"content": token, **flags} for token in SPECIAL}
    settings = {"added_tokens_decoder": added, "tokenizer_class": "Qwen2Tokenizer", "model_max_length": 131072}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return directory


SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_bos>", "<tts_eos>")


def spelled(word: str) -> list[str]:
    """Merges that build ``word`` letter by letter."""
    return [f"{word[:end]} {word[end]}" for end in range(1, len(word))]


MERGES = list(dict.fromkeys(spelled("assistant") + spelled("user") + spelled("\u0120the") + spelled("ing")))


def tokenizer_vocabulary() -> dict[str, int]:
    """Bytes, merges, special tokens."""
    tokens = [*pre_tokenizers.ByteLevel.alphabet()]
    tokens = [*sorted(tokens), *("".join(merge.split(" ")) for merge in MERGES), *SPECIAL]
    return {token: place for place, token in enumerate(dict.fromkeys(tokens))}


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
        for name, buffer in model.named_buffers():
            # The codebooks of the codec's encoder.
            if name.endswith("embed_sum"):
                normal(buffer, 0.0, 0.5)
            elif name.endswith("cluster_usage"):
                buffer.copy_(torch.rand(buffer.shape, generator=generator) + 0.5)
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


def kept_rows(model: Qwen3TTSTokenizerV2Model, codes: torch.Tensor) -> dict[str, torch.Tensor]:
    """Un-rotated keys and values [heads, frames, head_dim] of every layer for ``codes`` [1, Q, frames], by the name of
    the exported state."""
    rows: dict[str, torch.Tensor] = {}
    hooks = []
    heads = model.config.decoder_config.num_key_value_heads
    for index, layer in enumerate(model.decoder.pre_transformer.layers):
        for kind, module in (("key", layer.self_attn.k_proj), ("value", layer.self_attn.v_proj)):

            def keep(_m: Any, _i: Any, output: torch.Tensor, name: str = f"past_{kind}_{index}") -> None:
                rows[name] = output[0].unflatten(-1, (heads, -1)).transpose(0, 1)

            hooks.append(module.register_forward_hook(keep))
    with torch.no_grad():
        model.decoder(codes)
    for hook in hooks:
        hook.remove()
    return rows


def save_codec(model: Qwen3TTSTokenizerV2Model, directory: Path) -> Path:
    """A ``speech_tokenizer`` directory in the published layout."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(model.config.to_dict(), default=str), encoding="utf-8")
    state = {name: value.contiguous().clone() for name, value in model.state_dict().items()}
    save_file(state, directory / "model.safetensors", metadata={"format": "pt"})
    feature = {"feature_extractor_type": "EncodecFeatureExtractor", "sampling_rate": 24000, "feature_size": 1}
    (directory / "preprocessor_config.json").write_text(json.dumps(feature), encoding="utf-8")
    return directory
