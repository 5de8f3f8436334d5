"""Weights back from a shipped model directory, to go on from: the codec's decoder and the speaker encoder (ONNX),
talker and predictor (GGUF and tables of rows). What does not ship is not there: the codec's encoder and its phone head.

The next run needs this, because the float16 checkpoint is gone. It needs `onnx` and `gguf`. What comes back is what was
shipped, with every weight within half a quantisation step of the checkpoint's.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from export.trace.codec import CodecDecoder
from export.trace.speaker_encoder import SpeakerEncoder
from export.tts.codec_dims import CodecDims
from training.checkpoint import TOKENIZER
from training.shipped import Array, graph_tensors, stack_weights
from training.tts.codec import ENCODING
from training.tts.config import RATE, CodecShape, Config, SpeakerShape
from training.tts.decoder import Decoder
from training.tts.talker import ENCODER, Talker
from training.tts.tokenizer import SPECIAL

# Buffers of the exported modules that are no weights.
_CONSTANT = {"cos", "sin", "codebooks.first"}


def codec_dims(shape: CodecShape) -> CodecDims:
    """Give that shape in the exporter's words."""
    return CodecDims(
        codebooks=shape.num_quantizers, entries=shape.codebook_size, entry_width=shape.codebook_dim // 2,
        code_width=shape.codebook_dim, latent=shape.latent_dim, width=shape.hidden_size,
        layers=shape.num_hidden_layers, heads=shape.num_attention_heads, kv_heads=shape.num_attention_heads,
        head_dim=shape.hidden_size // shape.num_attention_heads, ffn=shape.intermediate_size,
        window=shape.sliding_window, rope_theta=shape.rope_theta, epsilon=shape.rms_norm_eps,
        ratios=shape.upsampling_ratios, rates=shape.upsample_rates, channels=shape.decoder_dim, sample_rate=RATE,
    )  # fmt: skip


def shipped_decoder(folder: Path, shape: CodecShape) -> dict[str, Tensor]:
    """Give the state dict of a codec's `Decoder` of that shape, without the projections into the codebooks, float32.

    The exporter only moves values, but for Snake's exponentials. So it is given the place of each value in the state
    dict in place of the value, and what it makes of the places tells where each value of the graph belongs.

    Raises:
        ValueError: the graph is not of that shape.
    """
    with torch.device("meta"):
        state = Decoder(shape).state_dict()
    wanted = {name: t.shape for name, t in state.items() if not ENCODING.match(f"decoder.{name}")}
    # Snake's come first, because small places survive an exponential.
    order = sorted(wanted, key=lambda name: not name.endswith(("alpha", "beta")))
    places: dict[str, Array] = {}
    begin = 1
    for name in order:
        places[name] = np.arange(begin, begin := begin + wanted[name].numel(), dtype=np.float32).reshape(wanted[name])

    def read(name: str) -> Array:
        name = name.removeprefix("decoder.")
        if name.endswith("cluster_usage"):
            return np.ones(wanted[name], np.float32)
        if name.endswith(("alpha", "beta")):
            return np.log(places[name]) * (1 if name.endswith("alpha") else -1)
        return places[name]

    found = np.full(begin, np.nan, np.float32)
    graph = graph_tensors(folder / "codec_decoder.onnx")
    for name, buffer in CodecDecoder(codec_dims(shape), read, torch.float32).named_buffers():
        if name not in _CONSTANT:
            if name not in graph or graph[name].shape != tuple(buffer.shape):
                raise ValueError(f"{folder}: {name} is not {list(buffer.shape)}")
            found[buffer.numpy().round().astype(np.int64)] = graph[name]
    weights: dict[str, Tensor] = {}
    for name, place in places.items():
        value = found[place.astype(np.int64)]
        if name.endswith("cluster_usage"):
            value = np.ones_like(value)
        elif name.endswith(("alpha", "beta")):
            value = np.log(value) * (1 if name.endswith("alpha") else -1)
        weights[name] = torch.from_numpy(value)
    return weights


def shipped_talker(folder: Path, config: Config, tokenizer: Path | None = None) -> dict[str, Tensor]:
    """Give the state dict of a `Talker` of that shape, with a row for each piece of its text, float32, without the
    speaker encoder where none ships. tokenizer: a tokenizer.json of other pieces than the shipped one's; each of them
    begins as the mean of what the shipped rows hold for its sounds.

    Raises:
        ValueError: a file is not of that shape.
    """
    t, codec = config.talker, config.codec
    rows = _table(folder / "text_rows.npy")
    rows = rows if tokenizer is None else _spelt(rows, folder / TOKENIZER, tokenizer)
    with torch.device("meta"):
        wanted = Talker(replace(t, text_vocab_size=len(rows)), codec, config.speaker).state_dict()
    text = _text(rows, t.text_hidden_size)
    predictor = "code_predictor."
    names = {name: name for name in wanted if name.startswith("model.")} | {"lm_head.weight": "codec_head.weight"}
    weights = stack_weights(folder / "talker.gguf", names, t.num_hidden_layers)
    names = {name.removeprefix(predictor): name for name in wanted if name.startswith(f"{predictor}model.")}
    weights |= stack_weights(folder / "predictor.gguf", names, t.predictor_num_hidden_layers)
    rows = _table(folder / "code_rows.npy").split(
        [codec.codebook_size + t.control_ids] + [codec.codebook_size] * (codec.num_quantizers - 1)
    )
    weights["model.codec_embedding.weight"] = rows[0]
    for i, (table, head) in enumerate(zip(rows[1:], _table(folder / "predictor_heads.npy"), strict=True)):
        weights[f"{predictor}model.codec_embedding.{i}.weight"] = table
        weights[f"{predictor}lm_head.{i}.weight"] = head
    weights[f"{predictor}small_to_mtp_projection.weight"] = _table(folder / "predictor_weight.npy").T.contiguous()
    weights[f"{predictor}small_to_mtp_projection.bias"] = _table(folder / "predictor_bias.npy")
    weights |= text
    if (graph := folder / "speaker_encoder.onnx").exists():
        weights |= _speaker_encoder(graph, [name for name in wanted if name.startswith(ENCODER)], config.speaker)
    else:
        wanted = {name: tensor for name, tensor in wanted.items() if not name.startswith(ENCODER)}
    for name, tensor in wanted.items():
        if name not in weights or weights[name].shape != tensor.shape:
            raise ValueError(f"{folder}: {name} is not {list(tensor.shape)}")
    return weights


def _speaker_encoder(path: Path, names: list[str], shape: SpeakerShape) -> dict[str, Tensor]:
    """Give what an exported graph holds, under training's names. The exporter is given the place of a name in place of
    each tensor."""
    graph = graph_tensors(path)
    scales = [shape.enc_res2net_scale] * (len(shape.enc_channels) - 2)
    places = SpeakerEncoder(lambda name: np.full((1, 1, 1), names.index(name), np.float32), scales, shape.enc_dilations)
    return {names[int(place)]: torch.from_numpy(graph[name]) for name, place in places.named_buffers()}


def _spelt(rows: Tensor, shipped: Path, tokenizer: Path) -> Tensor:
    """Give a row for every piece of `tokenizer`, made of the `rows` of the tokenizer that ships."""
    old, new = Tokenizer.from_file(str(shipped)), Tokenizer.from_file(str(tokenizer))
    made = rows.mean(0).repeat(new.get_vocab_size(), 1)
    for piece, number in new.get_vocab().items():
        same = old.token_to_id(piece) if piece in SPECIAL or piece == "assistant" else None
        ids = [same] if same is not None else old.encode(new.decode([number])).ids
        if ids:
            made[number] = rows[ids].mean(0)
    return made


def _table(path: Path) -> Tensor:
    return torch.from_numpy(np.load(path).astype(np.float32))


def _text(rows: Tensor, inner: int) -> dict[str, Tensor]:
    """Give an embedding and a projection that make `rows` [tokens, hidden].

    The exporter keeps their product only, whose rows lie in `inner` dimensions around a point. SiLU is inverted where
    it is above zero.
    """
    middle = rows.mean(0)
    u, spread, axes = torch.linalg.svd(rows - middle, full_matrices=False)
    size = spread[:inner].clamp(min=1e-6) / len(rows) ** 0.5
    y = u[:, :inner] * len(rows) ** 0.5  # Each dimension has variance 1 now.
    lift = (1 - y.min()).ceil()
    x = y + lift
    for _ in range(30):  # Newton's method solves x · sigmoid(x) = y + lift.
        gate = x.sigmoid()
        x = x - (x * gate - y - lift) / (gate * (1 + x * (1 - gate)))
    weight = axes[:inner].T * size
    return {
        "model.text_embedding.weight": x - lift,
        "text_projection.linear_fc1.weight": torch.eye(inner),
        "text_projection.linear_fc1.bias": lift.repeat(inner),
        "text_projection.linear_fc2.weight": weight,
        "text_projection.linear_fc2.bias": middle - weight.sum(1) * lift,
    }
