"""Random-weight checkpoints of the official classes, scaled so that every stage matters.

A model fresh from its initialiser hides mistakes: its convolutions vary sixty times less than the positions added to
them, its residual branches are small beside what they are added to, and a tied head repeats its own input. Here
convolutions are Kaiming-normal, every branch adds about as much as is there already, attention is sharp, and the last
norm has random signs, so that a hypothesis depends on everything before it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration, Qwen3ASRForTokenClassification

from export.tokenizer import NEEDED, SPLIT

SPECIAL = ("<|endoftext|>", *NEEDED, "<timestamp>")

TINY: Mapping[str, Any] = {
    # Nothing divides what it might be expected to divide: text head_dim is not hidden / heads, output is not d_model.
    "audio_config": {
        "num_mel_bins": 128, "encoder_layers": 3, "encoder_attention_heads": 3, "encoder_ffn_dim": 160, "d_model": 96,
        "n_window": 50, "n_window_infer": 800, "output_dim": 128, "downsample_hidden_size": 24,
    },
    "text_config": {
        "model_type": "qwen3", "vocab_size": 640, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 4,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "tie_word_embeddings": True,
}  # fmt: skip
"""Tied head, windows of 8 s."""

OTHER: Mapping[str, Any] = {
    "audio_config": {
        "num_mel_bins": 80, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 96, "d_model": 64,
        "n_window": 50, "n_window_infer": 400, "output_dim": 96, "downsample_hidden_size": 16,
    },
    "text_config": {
        "model_type": "qwen3", "vocab_size": 672, "hidden_size": 96, "intermediate_size": 160, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 48, "max_position_embeddings": 1024,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    },
    "tie_word_embeddings": False,
}  # fmt: skip
"""Another value for everything: own head, windows of 4 s, 80 mel bands, no grouped heads, other RoPE and epsilon."""


def longer(n_window: int, shape: Mapping[str, Any]) -> Mapping[str, Any]:
    """``shape`` with chunks of ``2 · n_window`` frames; the released models have 100."""
    audio = {"n_window": n_window, "max_position_embeddings": -(-2 * n_window // 8)}
    return dict(shape) | {"audio_config": shape["audio_config"] | audio}


FULL: Mapping[str, Any] = {
    "audio_config": {
        "num_mel_bins": 128, "encoder_layers": 18, "encoder_attention_heads": 14, "encoder_ffn_dim": 3584,
        "d_model": 896, "n_window": 50, "n_window_infer": 800, "output_dim": 1024, "downsample_hidden_size": 480,
    },
    "text_config": {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 65536, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    },
    "tie_word_embeddings": True,
}  # fmt: skip
"""Qwen3-ASR-0.6B's true dimensions."""
LARGER: Mapping[str, Any] = FULL | {
    "audio_config": FULL["audio_config"] | {
        "encoder_layers": 24, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
        "d_model": 1024, "output_dim": 2048,
    },
    "text_config": FULL["text_config"] | {"hidden_size": 2048, "intermediate_size": 6144},
}  # fmt: skip
"""Qwen3-ASR-1.7B's true dimensions."""


def write_checkpoint(
    directory: Path,
    shape: Mapping[str, Any],
    *,
    layout: str,
    seed: int = 0,
    shards: int = 1,
    aligner: int | None = None,
    sharpness: float = 1.6,
    spread: float = 0.25,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """A checkpoint of ``shape`` in ``layout`` ("original" or "transformers"); ``aligner``: number of time classes.

    The original layout is stored as ``dtype``. ``sharpness`` is the gain of the decoder's query and key norms,
    ``spread`` the deviation of the logarithm of the embeddings' lengths: attention must tell positions apart and the
    best token must stand out from the next, as after training, or float16 rounding decides ties. The deeper the
    decoder, the less sharpness that takes.
    """
    directory.mkdir(parents=True)
    tokenizer = write_tokenizer(directory, slow=layout == "original")
    config = dict(shape, audio_token_id=tokenizer.token_to_id("<|audio_pad|>"), pad_token_id=0, eos_token_id=[])
    if aligner is not None:
        config["num_labels"] = aligner
    torch.manual_seed(seed)
    kind = Qwen3ASRForConditionalGeneration if aligner is None else Qwen3ASRForTokenClassification
    model = kind(Qwen3ASRConfig(**json.loads(json.dumps(config))))
    rescale(model, seed, sharpness, spread)
    if layout == "transformers":
        total = sum(parameter.numel() * 4 for parameter in model.parameters())
        model.save_pretrained(directory, max_shard_size=-(-total // shards) if shards > 1 else "50GB")
    else:
        write_original(directory, model.to(dtype), shape, config, aligner)
    return directory


def rescale(model: torch.nn.Module, seed: int, sharpness: float, spread: float) -> None:
    """Give every tensor a size at which a change of it is heard at the output."""
    random = torch.Generator().manual_seed(seed)

    def normal(tensor: torch.Tensor, size: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=random) * size)

    with torch.no_grad():
        for name, tensor in model.named_parameters():
            fan = tensor[0].numel()
            if "conv2d" in name and name.endswith("weight"):
                normal(tensor, (2 / fan) ** 0.5)
            elif name.endswith("norm.weight") and "language_model.norm" in name:
                # Random signs: with all positive ones a tied head predicts the token that it was given.
                normal(tensor, 2.0 / tensor.numel() ** 0.5 / EMBEDDING)
            elif "norm" in name or "ln_post" in name:
                normal(tensor, 0.1)
                if name.endswith("weight"):
                    tensor.add_(sharpness if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0)
            elif name.endswith("bias"):
                normal(tensor, 0.1)
            elif "embed_tokens" in name or "lm_head" in name:
                normal(tensor, EMBEDDING)
                tensor.mul_(torch.exp(spread * torch.randn(len(tensor), 1, generator=random)))
            elif name.endswith("conv_out.weight"):
                normal(tensor, 1.5 / fan**0.5)
            else:
                normal(tensor, gain(name) / fan**0.5)


EMBEDDING = 0.5
"""Size of a token's embedding and, by ``linear_2``, of an audio row's."""


def gain(name: str) -> float:
    """How much a matrix amplifies: attention averages and gates shrink, their projections make up for it."""
    gains = {
        "audio_tower": {"q_proj": 1.6, "k_proj": 1.6, "out_proj": 2.5, "fc2": 1.7},
        "language_model": {"o_proj": 2.0, "down_proj": 2.5, "gate_proj": 1.5},
        "multi_modal": {"linear_2": 2 * EMBEDDING},
    }
    for part, values in gains.items():
        if part in name:
            return next((value for key, value in values.items() if f"{key}." in name), 1.0)
    return 2.0


def write_original(
    directory: Path, model: Any, shape: Mapping[str, Any], config: Mapping[str, Any], aligner: int | None
) -> None:
    """The same weights in the layout of QwenLM/Qwen3-ASR, in two shards with an index."""
    state: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        name = name.replace("model.multi_modal_projector.linear_", "thinker.audio_tower.proj")
        name = name.replace("model.audio_tower.", "thinker.audio_tower.").replace(
            "model.language_model.", "thinker.model."
        )
        name = name.replace("lm_head.", "thinker.lm_head.").replace("score.", "thinker.lm_head.")
        if name == "thinker.lm_head.weight" and shape["tie_word_embeddings"] and aligner is None:
            continue
        state[name] = tensor.contiguous().clone()
    names = sorted(state)
    index: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save_file({name: state[name] for name in part}, directory / file, {"format": "pt"})
        index |= {name: file for name in part}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    text = dict(shape["text_config"])
    text["rope_theta"] = text.pop("rope_parameters")["rope_theta"]
    text["rope_scaling"] = {
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
        "rope_type": "default",
        "type": "default",
    }
    thinker = {
        "model_type": "qwen3_asr_thinker",
        "audio_config": {
            "model_type": "qwen3_asr_audio_encoder",
            "max_source_positions": 1500,
            **shape["audio_config"],
        },
        "text_config": text,
        "audio_token_id": config["audio_token_id"],
        **({} if aligner is None else {"classify_num": aligner}),
    }
    whole = {
        "architectures": ["Qwen3ASRForConditionalGeneration"],
        "model_type": "qwen3_asr",
        "support_languages": ["English", "Chinese"],
        "thinker_config": thinker,
        **({} if aligner is None else {"timestamp_segment_time": 80}),
    }
    (directory / "config.json").write_text(json.dumps(whole, indent=2))


def add_ctc(directory: Path, *, width: int, classes: int) -> Path:
    """Give a checkpoint a CTC head of ``classes``."""
    random = torch.Generator().manual_seed(2)
    head = {
        "ctc.weight": 2 * torch.randn(classes, width, generator=random) / width**0.5,
        "ctc.bias": torch.randn(classes, generator=random),
    }
    index = directory / "model.safetensors.index.json"
    if index.exists():
        save_file(head, directory / "head.safetensors", {"format": "pt"})
        whole = json.loads(index.read_text())
        whole["weight_map"] |= dict.fromkeys(head, "head.safetensors")
        index.write_text(json.dumps(whole))
    else:
        path = directory / "model.safetensors"
        save_file(load_file(path) | head, path, {"format": "pt"})
    config = json.loads((directory / "config.json").read_text())
    config["hearsay"] = {"ctc": {"blank": classes - 1}}
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_tokenizer(directory: Path, *, slow: bool, lines: Sequence[str] = ()) -> Tokenizer:
    """A small byte-level BPE in Qwen2's format; ``slow``: vocab.json, merges.txt and tokenizer_config.json instead.

    ``lines``: what it learns to write in few tokens beside its own words.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    words = "system user assistant language English Chinese None hearsay the quick brown fox jumps over lazy dogs"
    pairs = [f"{first} {second}" for first in words.split() for second in words.split()]
    trainer = trainers.BpeTrainer(
        vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([*pairs, *100 * tuple(lines)], trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    if not slow:
        tokenizer.save(str(directory / "tokenizer.json"))
        return tokenizer
    tokenizer.model.save(str(directory))
    added = {str(tokenizer.token_to_id(token)): {"content": token, "special": True} for token in SPECIAL}
    (directory / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return tokenizer
