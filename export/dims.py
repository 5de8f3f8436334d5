"""The dimensions of a checkpoint, read from its configuration and checked against its tensors; none is assumed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from export.checkpoint import Checkpoint, CheckpointError, read_json

CONVOLUTIONS = ("conv2d1", "conv2d2", "conv2d3")
"""The stem's three convolutions, 3 × 3 with stride 2 and padding 1 (QwenLM/Qwen3-ASR,
modeling_qwen3_asr.py:610-629)."""


@dataclass(frozen=True, slots=True)
class EncoderDims:
    """The audio encoder's dimensions. ``*_rows`` count encoder rows, ``*_frames`` mel frames."""

    bins: int
    channels: int
    bands: int
    """How many mel bands are left after the convolutions."""
    width: int
    layers: int
    heads: int
    head_dim: int
    ffn: int
    output: int
    chunk_frames: int
    chunk_rows: int
    window_rows: int
    ctc: int | None
    """How many classes the CTC head has, its blank included; None without such a head."""
    placed: bool = False
    """Whether the checkpoint has positions of its own, one for each row of a window (``audio_tower.positions``), in
    place of the official sines, which begin anew in each chunk."""


@dataclass(frozen=True, slots=True)
class DecoderDims:
    """The dimensions of a text decoder, a Qwen3 language model. ``tied``: the head is the embedding matrix."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    context: int
    rope_theta: float
    epsilon: float
    tied: bool


@dataclass(frozen=True, slots=True)
class AlignerDims:
    """The dimensions of a Qwen3-ForcedAligner's head: how many classes of time it has, and the seconds of each."""

    classes: int
    step: float


@dataclass(frozen=True, slots=True)
class Dims:
    """All of a checkpoint's dimensions."""

    encoder: EncoderDims
    decoder: DecoderDims
    aligner: AlignerDims | None


def read_dims(checkpoint: Checkpoint) -> Dims:
    """Read and check every dimension.

    Raises:
        CheckpointError: a key is missing or contradicts a tensor, or a tensor is missing or of another shape.
    """
    config: Mapping[str, Any] = checkpoint.config.get("thinker_config", checkpoint.config)
    audio = Section(checkpoint, "audio_config", config)
    text = Section(checkpoint, "text_config", config)
    dims = Dims(
        read_encoder(checkpoint, audio), read_decoder(checkpoint, text, config), read_aligner(checkpoint, config)
    )
    if dims.encoder.output != dims.decoder.width:
        raise CheckpointError(
            f"{checkpoint.directory}: audio_config.output_dim {dims.encoder.output} differs from "
            f"text_config.hidden_size {dims.decoder.width}"
        )
    hold_tensors(checkpoint, chain(encoder_shapes(dims.encoder), decoder_shapes(dims.decoder, dims.aligner)))
    return dims


def hold_tensors(checkpoint: Checkpoint, expected: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Raise CheckpointError unless the checkpoint has exactly the tensors ``expected``, of these shapes."""
    names: set[str] = set()
    for name, shape in expected:  # One after the other: a configuration may ask for a thousand million layers.
        checkpoint.require(name, *shape)
        names.add(name)
    # Without this check a layer too many would be left out unnoticed. A head that is tied may be stored nevertheless.
    for name in sorted(checkpoint.tensors.keys() - names - {"lm_head.weight"}):
        raise CheckpointError(
            f"{checkpoint.directory}: tensor {checkpoint.published(name)} has no place in the model that the "
            "configuration describes"
        )


class Section:
    """An object in a configuration file, whose keys are read with errors that name them."""

    def __init__(self, checkpoint: Checkpoint, name: str, parent: Mapping[str, Any], file: str = "config.json") -> None:
        self.name = name
        self.path = checkpoint.directory / file
        value = parent.get(name)
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.path}: {name} is missing or no object")
        self.values: Mapping[str, Any] = value

    def integer(self, *names: str) -> int:
        """The value of the first key of ``names`` that is there, which must be a positive integer."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    raise self.error(name, f"{value!r} is no positive integer")
                return value
        raise self.error(names[0], "missing")

    def error(self, name: str, message: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {self.name and f'{self.name}.'}{name}: {message}")


def read_encoder(checkpoint: Checkpoint, audio: Section) -> EncoderDims:
    bins, width = audio.integer("num_mel_bins"), audio.integer("d_model", "hidden_size")
    heads = audio.integer("encoder_attention_heads", "num_attention_heads")
    if width % heads:
        raise audio.error("d_model", f"{width} is no multiple of {heads} heads")
    if width % 2:
        raise audio.error("d_model", f"{width} is odd: positions are half sine, half cosine")
    if audio.values.get("activation_function", "gelu") != "gelu":
        raise audio.error("activation_function", f"{audio.values['activation_function']!r} is not 'gelu'")
    if audio.values.get("scale_embedding", False):
        raise audio.error("scale_embedding", "true is not supported (no published checkpoint sets it)")
    chunk, window = 2 * audio.integer("n_window"), audio.integer("n_window_infer")
    if window % chunk:
        raise audio.error("n_window_infer", f"{window} is no multiple of 2 · n_window = {chunk}")
    rows = halved_thrice(chunk)
    ctc = checkpoint.tensors.get("ctc.weight")
    return EncoderDims(
        bins=bins,
        channels=audio.integer("downsample_hidden_size"),
        bands=halved_thrice(bins),
        width=width,
        layers=audio.integer("encoder_layers", "num_hidden_layers"),
        heads=heads,
        head_dim=width // heads,
        ffn=audio.integer("encoder_ffn_dim", "intermediate_size"),
        output=audio.integer("output_dim"),
        chunk_frames=chunk,
        chunk_rows=rows,
        window_rows=rows * (window // chunk),
        ctc=ctc.shape[0] if ctc is not None and ctc.shape else None,
        placed="audio_tower.positions" in checkpoint.tensors,
    )


def halved_thrice(frames: int) -> int:
    """The length that is left of ``frames`` after three convolutions of kernel 3, stride 2 and padding 1."""
    for _ in CONVOLUTIONS:
        frames = (frames - 1) // 2 + 1
    return frames


def read_decoder(checkpoint: Checkpoint, text: Section, config: Mapping[str, Any]) -> DecoderDims:
    heads = text.integer("num_attention_heads")
    norm = checkpoint.tensors.get("model.layers.0.self_attn.q_norm.weight")
    # hidden_size / heads would be wrong: published models have 1024 / 16 and heads of 128.
    head_dim = text.values.get("head_dim") or (norm.shape[0] if norm is not None else text.integer("head_dim"))
    if text.values.get("hidden_act", "silu") != "silu":
        raise text.error("hidden_act", f"{text.values['hidden_act']!r} is not 'silu'")
    if text.values.get("attention_bias", False):
        raise text.error("attention_bias", "true is not supported by llama.cpp's arch qwen3")
    if text.values.get("use_sliding_window", False):
        raise text.error("use_sliding_window", "true is not supported by llama.cpp's arch qwen3")
    rope: Mapping[str, Any] = text.values.get("rope_parameters") or text.values.get("rope_scaling") or {}
    # In this model all three planes of the multimodal RoPE are equal, which makes it the plain one.
    if rope.get("rope_type", rope.get("type", "default")) not in ("default", "mrope"):
        raise text.error("rope_scaling", f"{rope.get('rope_type', rope.get('type'))!r} is not supported")
    theta = text.values.get("rope_theta", rope.get("rope_theta"))
    if theta is None:
        raise text.error("rope_theta", "missing")
    epsilon = text.values.get("rms_norm_eps")
    if epsilon is None:
        raise text.error("rms_norm_eps", "missing")
    tied = "lm_head.weight" not in checkpoint.tensors
    claims = text.values.get("tie_word_embeddings", config.get("tie_word_embeddings", True))
    if tied and not claims:
        raise CheckpointError(
            f"{checkpoint.directory}: tensor {checkpoint.published('lm_head.weight')} is missing, "
            "and text_config.tie_word_embeddings is false"
        )
    return DecoderDims(
        width=text.integer("hidden_size"),
        layers=text.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=text.integer("num_key_value_heads") if "num_key_value_heads" in text.values else heads,
        head_dim=head_dim,
        ffn=text.integer("intermediate_size"),
        vocabulary=text.integer("vocab_size"),
        context=text.integer("max_position_embeddings"),
        rope_theta=float(theta),
        epsilon=float(epsilon),
        # If the configuration says that the head is tied, a head that is stored is the embedding matrix again.
        tied=tied or bool(claims),
    )


def read_aligner(checkpoint: Checkpoint, config: Mapping[str, Any]) -> AlignerDims | None:
    """The dimensions of a ForcedAligner's head, or None for a hearing model. The original layout has them in
    ``classify_num``, transformers' in the labels of a token classifier."""
    architectures = checkpoint.config.get("architectures") or []
    classes = config.get("classify_num")
    if classes is None and "Qwen3ASRForTokenClassification" in architectures:
        labels = config.get("id2label")
        classes = len(labels) if labels else config.get("num_labels", 2)
    if classes is None:
        return None
    if "lm_head.bias" in checkpoint.tensors:
        raise CheckpointError(f"{checkpoint.directory}: the time head has a bias; the published ones have none")
    step = checkpoint.config.get("timestamp_segment_time", config.get("timestamp_segment_time"))
    if step is None and (path := checkpoint.directory / "processor_config.json").exists():
        step = read_json(path).get("timestamp_segment_time")
    # A file without the key means 80 ms, the default of transformers' Qwen3ASRProcessor.
    return AlignerDims(int(classes), float(step if step is not None else 80) / 1000)


def encoder_shapes(dims: EncoderDims) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor of the encoder and its shape."""
    width, inner = dims.width, 1
    for name in CONVOLUTIONS:
        yield f"audio_tower.{name}.weight", (dims.channels, inner, 3, 3)
        yield f"audio_tower.{name}.bias", (dims.channels,)
        inner = dims.channels
    yield "audio_tower.conv_out.weight", (width, dims.channels * dims.bands)
    for layer in range(dims.layers):
        prefix = f"audio_tower.layers.{layer}."
        for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"):
            yield f"{prefix}{name}.weight", (width, width)
            yield f"{prefix}{name}.bias", (width,)
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            yield f"{prefix}{name}.weight", (width,)
            yield f"{prefix}{name}.bias", (width,)
        yield f"{prefix}fc1.weight", (dims.ffn, width)
        yield f"{prefix}fc1.bias", (dims.ffn,)
        yield f"{prefix}fc2.weight", (width, dims.ffn)
        yield f"{prefix}fc2.bias", (width,)
    for name, out in (("ln_post", None), ("proj1", width), ("proj2", dims.output)):
        yield f"audio_tower.{name}.weight", (width,) if out is None else (out, width)
        yield f"audio_tower.{name}.bias", (width if out is None else out,)
    if dims.placed:
        yield "audio_tower.positions", (dims.window_rows, width)
    if dims.ctc is not None:
        yield "ctc.weight", (dims.ctc, width)
        yield "ctc.bias", (dims.ctc,)


def decoder_shapes(decoder: DecoderDims, aligner: AlignerDims | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor of the decoder and its shape."""
    queries, keys = decoder.heads * decoder.head_dim, decoder.kv_heads * decoder.head_dim
    yield "model.embed_tokens.weight", (decoder.vocabulary, decoder.width)
    for layer in range(decoder.layers):
        prefix = f"model.layers.{layer}."
        yield f"{prefix}input_layernorm.weight", (decoder.width,)
        yield f"{prefix}post_attention_layernorm.weight", (decoder.width,)
        yield f"{prefix}self_attn.q_proj.weight", (queries, decoder.width)
        yield f"{prefix}self_attn.k_proj.weight", (keys, decoder.width)
        yield f"{prefix}self_attn.v_proj.weight", (keys, decoder.width)
        yield f"{prefix}self_attn.o_proj.weight", (decoder.width, queries)
        yield f"{prefix}self_attn.q_norm.weight", (decoder.head_dim,)
        yield f"{prefix}self_attn.k_norm.weight", (decoder.head_dim,)
        yield f"{prefix}mlp.gate_proj.weight", (decoder.ffn, decoder.width)
        yield f"{prefix}mlp.up_proj.weight", (decoder.ffn, decoder.width)
        yield f"{prefix}mlp.down_proj.weight", (decoder.width, decoder.ffn)
    yield "model.norm.weight", (decoder.width,)
    if aligner is not None:
        yield "lm_head.weight", (aligner.classes, decoder.width)
    elif not decoder.tied:
        yield "lm_head.weight", (decoder.vocabulary, decoder.width)
