"""Weights back from a shipped model directory: codec graph, q8_0 GGUFs and tables of rows -> files to train on from.

For the next run, where the float16 checkpoint is gone. Needs `onnx` and `gguf`. What comes back is what was shipped:
every weight within half a quantisation step of the checkpoint's. Two parts are not shipped: the codec's encoder, which
stays absent, and the text embedding before its projection, of which a directory holds the projected rows; an embedding
and a projection that give these rows take their place.
"""

import re
from pathlib import Path

import gguf
import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from tokenizers import Tokenizer
from torch import Tensor

from training.blocks import BLOCK
from training.tts.checkpoint import save_talker
from training.tts.codec import Codec, save_decoder
from training.tts.config import Config
from training.tts.talker import Talker
from training.tts.tokenizer import save_tokenizer

Array = NDArray[np.float32]
_CODEC, _TALKER, _PREDICTOR = "codec_decoder.onnx", "talker.gguf", "predictor.gguf"
_STORED = re.compile(r"(?P<name>.+\.(?:weight|table))_(?P<kind>int8|half)")
_ROW_PEAK = 0.5  # of the values that a text embedding takes: there SiLU has an inverse
# Modules of the exported graph -> those of `Decoder`, first match first.
_MODULES = (
    (r"codebooks\.semantic", "quantizer.rvq_first.output_proj"),
    (r"codebooks\.acoustic", "quantizer.rvq_rest.output_proj"),
    (r"pre", "pre_conv.conv"),
    (r"enter", "pre_transformer.input_proj"),
    (r"leave", "pre_transformer.output_proj"),
    (r"norm", "pre_transformer.norm"),
    (r"layers\.(\d+)\.out", r"pre_transformer.layers.\1.self_attn.o_proj"),
    (r"layers\.(\d+)\.down", r"pre_transformer.layers.\1.mlp.down_proj"),
    (r"layers\.(\d+)\.attention_norm", r"pre_transformer.layers.\1.input_layernorm"),
    (r"layers\.(\d+)\.mlp_norm", r"pre_transformer.layers.\1.post_attention_layernorm"),
    (r"stretches\.(\d+)", r"upsample.\1.0.conv"),
    (r"nexts\.(\d+)", r"upsample.\1.1.norm"),
    (r"nexts\.(\d+)\.depthwise", r"upsample.\1.1.dwconv.conv"),
    (r"nexts\.(\d+)\.up", r"upsample.\1.1.pwconv1"),
    (r"nexts\.(\d+)\.down", r"upsample.\1.1.pwconv2"),
    (r"head", "decoder.0.conv"),
)


def graph_tensors(path: Path) -> dict[str, Array]:
    """Tensors of an exported codec graph under their own names; int8 matrices as [outputs, inputs], multiplied out."""
    values = {t.name: numpy_helper.to_array(t) for t in onnx.load(str(path)).graph.initializer}
    found: dict[str, Array] = {}
    for name, value in values.items():
        stored = _STORED.fullmatch(name)
        if stored and stored["kind"] == "int8":
            found[stored["name"]] = (value.astype(np.float32) * values[f"{stored['name']}_scales"]).T
        elif not name.endswith(".weight_scales"):
            found[stored["name"] if stored else name] = value.astype(np.float32)
    return found


def _module(name: str, blocks: int) -> str | None:
    """The decoder's module that a module of the graph was exported from."""
    for pattern, ours in _MODULES:
        if match := re.fullmatch(pattern, name):
            return match.expand(ours)
    if match := re.fullmatch(r"rises\.(\d+)", name):
        return f"decoder.{int(match[1]) + 1}.block.1.conv"
    if match := re.fullmatch(r"units\.(\d+)\.(\d+)\.(wide|point)", name):
        kind = {"wide": "conv1", "point": "conv2"}[match[3]]
        return f"decoder.{int(match[1]) + 1}.block.{int(match[2]) + 2}.{kind}.conv"
    if match := re.fullmatch(r"units\.(\d+)\.(\d+)\.snakes\.(\d)", name):
        return f"decoder.{int(match[1]) + 1}.block.{int(match[2]) + 2}.act{int(match[3]) + 1}"
    if match := re.fullmatch(r"snakes\.(\d+)", name):
        return f"decoder.{int(match[1]) + 1}" + ("" if int(match[1]) == blocks else ".block.0")
    return f"decoder.{blocks + 2}.conv" if name == "tail" else None


def codec_weights(folder: Path, config: Config) -> dict[str, Tensor]:
    """The state dict of a `Decoder` of the configuration's shape, without the books' input projections."""
    shape, found = config.codec, graph_tensors(folder / _CODEC)
    out: dict[str, Array] = {}
    width = shape.hidden_size
    for name, value in found.items():
        module, _, kind = name.rpartition(".")
        layer = re.fullmatch(r"layers\.(\d+)\.?(\w*)", module)
        inner = f"pre_transformer.layers.{layer[1]}." if layer else ""
        ours = _module(module, len(shape.upsample_rates))
        if name == "codebooks.table":
            out |= _books(value, shape.num_quantizers)
        elif layer and layer[2] == "inputs":
            parts = zip(("q_proj", "k_proj", "v_proj"), np.split(value, [width, 2 * width]), strict=True)
            out |= {f"{inner}self_attn.{part}.weight": rows for part, rows in parts}
        elif layer and layer[2] == "gate_up":
            parts = zip(("gate_proj", "up_proj"), np.split(value, 2), strict=True)
            out |= {f"{inner}mlp.{part}.weight": rows for part, rows in parts}
        elif layer and kind.endswith("_scale"):
            out[f"{inner}{'self_attn' if kind.startswith('attention') else 'mlp'}_layer_scale.scale"] = value
        elif ours is None:
            continue
        elif kind == "gamma":
            out[f"{ours.removesuffix('.norm')}.gamma"] = value
        elif kind == "frequency":
            out[f"{ours}.alpha"] = np.log(value[:, 0])
        elif kind == "scale":
            out[f"{ours}.beta"] = np.log(np.maximum(1 / value[:, 0] - 1e-9, 1e-9))
        elif module.startswith("codebooks."):
            out[f"{ours}.weight"] = value[:, :, None]
        else:  # transposed convolutions are exported in two dimensions, the first of them one high
            out[f"{ours}.{kind}"] = value[:, :, 0] if value.ndim == 4 else value
    return {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in out.items()}


def _books(table: Array, books: int) -> dict[str, Array]:
    out: dict[str, Array] = {}
    for i, entries in enumerate(np.split(table, books)):
        part = "rvq_first.vq.layers.0" if i == 0 else f"rvq_rest.vq.layers.{i - 1}"
        out[f"quantizer.{part}._codebook.embedding_sum"] = entries
        out[f"quantizer.{part}._codebook.cluster_usage"] = np.ones(len(entries), np.float32)
    return out


def text_weights(rows: Array, width: int) -> dict[str, Tensor]:
    """A text embedding [n, width] and a projection that give `rows` [n, hidden], as near as `width` dimensions can."""
    middle = rows.astype(np.float64).mean(0)
    u, s, v = np.linalg.svd(rows - middle, full_matrices=False)
    rank = min(width, len(s))
    inner = np.zeros((len(rows), width))
    inner[:, :rank] = u[:, :rank] * s[:rank]
    # SiLU has an inverse around 1, the bias: every dimension of the embedding is brought to within _ROW_PEAK of there.
    scale = _ROW_PEAK / np.maximum(np.abs(inner).max(0), 1e-9)
    outer = np.zeros((rows.shape[1], width))
    outer[:, :rank] = v[:rank].T / scale[:rank]
    centre = _silu(1.0)
    found = {
        "model.text_embedding.weight": _silu_inverse(inner * scale + centre) - 1.0,
        "text_projection.linear_fc1.weight": np.eye(width),
        "text_projection.linear_fc1.bias": np.ones(width),
        "text_projection.linear_fc2.weight": outer,
        "text_projection.linear_fc2.bias": middle - centre * outer.sum(1),
    }
    return {k: torch.from_numpy(np.ascontiguousarray(value, np.float32)) for k, value in found.items()}


def _silu(x: float) -> float:
    return float(x / (1 + np.exp(-x)))


def _silu_inverse(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """x > 0 or a little below with x · sigmoid(x) = y, by Newton's method."""
    x = np.ones_like(y)
    for _ in range(30):
        sigmoid = 1 / (1 + np.exp(-x))
        x = x - (x * sigmoid - y) / (sigmoid * (1 + x * (1 - sigmoid)))
    return x


def _stack(path: Path, prefix: str) -> dict[str, Tensor]:
    """Blocks, final norm and head (`output`) of a GGUF."""
    out: dict[str, Tensor] = {}
    for tensor in gguf.GGUFReader(path).tensors:
        value = torch.from_numpy(np.array(gguf.dequantize(tensor.data, tensor.tensor_type), np.float32))
        if block := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name):
            out[f"{prefix}layers.{block[1]}.{BLOCK[block[2]]}.weight"] = value
        elif tensor.name == "output_norm.weight":
            out[f"{prefix}norm.weight"] = value
        elif tensor.name == "output.weight":
            out["codec_head.weight"] = value
    return out


def talker_weights(folder: Path, config: Config) -> dict[str, Tensor]:
    """The state dict of a `Talker` of the configuration's shape."""

    def table(name: str) -> Tensor:
        return torch.from_numpy(np.load(folder / f"{name}.npy").astype(np.float32))

    vocabulary = config.codec.codebook_size + config.talker.control_ids
    prefix = "code_predictor."
    out = _stack(folder / _TALKER, "model.") | _stack(folder / _PREDICTOR, f"{prefix}model.")
    out |= text_weights(table("text_rows").numpy(), config.talker.text_hidden_size)
    later = [config.codec.codebook_size] * (config.codec.num_quantizers - 1)
    first, *rest = table("code_rows").split([vocabulary, *later])
    out["model.codec_embedding.weight"] = first
    for i, (rows, head) in enumerate(zip(rest, table("predictor_heads"), strict=True)):
        out[f"{prefix}model.codec_embedding.{i}.weight"] = rows
        out[f"{prefix}lm_head.{i}.weight"] = head
    out[f"{prefix}small_to_mtp_projection.weight"] = table("predictor_weight").T.contiguous()
    out[f"{prefix}small_to_mtp_projection.bias"] = table("predictor_bias")
    return out


def shipped(folder: Path, config: Config, out: Path) -> None:
    """Write out/codec.safetensors (no encoder), out/model.safetensors and the folder out/tokenizer. A shape that
    differs from the configuration's is an error that names the tensors.
    """
    codec, talker = Codec(config.codec), Talker(config.talker, config.codec)
    weights = codec_weights(folder, config)
    # Only an encoder reads the books' input projections: a new one is to give the vectors that the books hold, the
    # semantic one first, all values of about unit size.
    parts = [f"quantizer.{part}" for part in ("rvq_first", "rvq_rest")]
    for part, rows in zip(parts, torch.eye(config.codec.codebook_dim).chunk(2), strict=True):
        size = weights[f"{part}.vq.layers.0._codebook.embedding_sum"].std()
        weights[f"{part}.input_proj.weight"] = (size * rows)[:, :, None].contiguous()
    codec.decoder.load_state_dict(weights)
    talker.load_state_dict(talker_weights(folder, config))
    save_decoder(codec, out / "codec.safetensors")
    save_talker(talker, out / "model.safetensors")
    save_tokenizer(Tokenizer.from_file(str(folder / "tokenizer.json")), out / "tokenizer")
