"""One tensor of each stage of the official model, and what changes it: a limit that 1 % keeps is no limit."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ENCODER_STAGES = (
    "audio_tower.conv2d1.weight", "audio_tower.conv2d1.bias",
    "audio_tower.conv2d2.weight", "audio_tower.conv2d3.weight",
    "audio_tower.conv_out.weight", "audio_tower.positional_embedding.positional_embedding",
    "audio_tower.layers.0.self_attn_layer_norm.weight", "audio_tower.layers.0.self_attn.q_proj.weight",
    "audio_tower.layers.0.self_attn.q_proj.bias", "audio_tower.layers.0.self_attn.k_proj.weight",
    "audio_tower.layers.1.self_attn.v_proj.weight", "audio_tower.layers.1.self_attn.out_proj.weight",
    "audio_tower.layers.1.self_attn.out_proj.bias", "audio_tower.layers.1.final_layer_norm.bias",
    "audio_tower.layers.1.fc1.weight", "audio_tower.layers.0.fc2.weight", "audio_tower.layers.0.fc2.bias",
    "audio_tower.ln_post.weight", "multi_modal_projector.linear_1.weight", "multi_modal_projector.linear_2.weight",
    "multi_modal_projector.linear_2.bias",
)  # fmt: skip

DECODER_STAGES = (
    "model.language_model.embed_tokens.weight", "model.language_model.norm.weight", "lm_head.weight",
    "model.language_model.layers.0.input_layernorm.weight", "model.language_model.layers.0.self_attn.q_proj.weight",
    "model.language_model.layers.1.self_attn.k_proj.weight", "model.language_model.layers.0.self_attn.v_proj.weight",
    "model.language_model.layers.1.self_attn.o_proj.weight", "model.language_model.layers.0.self_attn.q_norm.weight",
    "model.language_model.layers.1.self_attn.k_norm.weight",
    "model.language_model.layers.0.post_attention_layernorm.weight",
    "model.language_model.layers.0.mlp.gate_proj.weight",
    "model.language_model.layers.1.mlp.up_proj.weight", "model.language_model.layers.0.mlp.down_proj.weight",
)  # fmt: skip


@contextmanager
def changed(tensor: torch.Tensor) -> Iterator[None]:
    """One tensor of the official model off by 1 %, each value up or down."""
    before = tensor.detach().clone()
    signs = torch.randint(0, 2, tensor.shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    with torch.no_grad():
        tensor.mul_(1 + 0.01 * signs)
    try:
        yield
    finally:
        with torch.no_grad():
            tensor.copy_(before)
