"""The dimensions of a Fun-ASR-Nano checkpoint, read from its configuration and checked against its tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from export.checkpoint import CheckpointError
from export.dims import DecoderDims, Section, decoder_shapes, hold_tensors, read_decoder
from export.funasr.checkpoint import CONFIG, FunAsrCheckpoint

Shapes = Iterator[tuple[str, tuple[int, ...]]]

SUPPORTED: Mapping[str, str] = {
    "audio_encoder": "SenseVoiceEncoderSmall",
    "audio_adaptor": "Transformer",
    "frontend": "WavFrontend",
}
"""The classes of the published checkpoints' parts, the only ones that can be exported."""


LONGEST_SECONDS = 30
"""How long a clip may be: the published code cuts speech into parts of so many seconds before it encodes it (Fun-ASR,
README: max_single_segment_time)."""


@dataclass(frozen=True, slots=True)
class FrontDims:
    """The front end: Kaldi's filter bank. ``frame_length`` and ``hop`` are in samples; ``stacked`` frames make a row,
    and a row begins every ``step`` frames. ``cmvn`` is the file of mean and variance, if there is one."""

    sample_rate: int
    frame_length: int
    hop: int
    bins: int
    stacked: int
    step: int
    cmvn: str | None


@dataclass(frozen=True, slots=True)
class SenseVoiceDims:
    """The encoder: ``layers`` blocks and a norm, then ``second`` blocks and a norm. ``kernel`` is the length of the
    memory block's convolution, whose window is moved ``shift`` rows to the left of the middle."""

    inputs: int
    width: int
    heads: int
    ffn: int
    layers: int
    second: int
    kernel: int
    shift: int


@dataclass(frozen=True, slots=True)
class AdaptorDims:
    """An adaptor: two linear layers with ``inner`` values between them, then ``layers`` blocks of ``width``."""

    inner: int
    width: int
    heads: int
    layers: int


@dataclass(frozen=True, slots=True)
class CtcDims:
    """The CTC head: an adaptor of its own on the encoder's rows, then a linear layer with ``classes`` outputs, of which
    ``blank`` is the blank."""

    adaptor: AdaptorDims
    classes: int
    blank: int


@dataclass(frozen=True, slots=True)
class FunAsrDims:
    """All of a checkpoint's dimensions.

    Only the first ⌈rows / 2^halvings⌉ of the adaptor's rows go into the decoder. ``system`` tells whether the prompt
    has a system turn. ``think`` tells whether the answer may begin with thoughts; if not, the prompt ends with empty
    ones.
    """

    front: FrontDims
    encoder: SenseVoiceDims
    adaptor: AdaptorDims
    ctc: CtcDims | None
    decoder: DecoderDims
    halvings: int
    system: bool
    think: bool


def read_funasr_dims(checkpoint: FunAsrCheckpoint) -> FunAsrDims:
    """Read and check every dimension.

    Raises:
        CheckpointError: a key is missing, not supported or contradicts a tensor, or a tensor is missing or too many.
    """
    whole, config = checkpoint.whole, checkpoint.whole.config
    for key, wanted in SUPPORTED.items():
        if str(config.get(key)).lower() != wanted.lower():
            raise CheckpointError(f"{whole.directory / CONFIG}: {key}: {config.get(key)!r} is not {wanted!r}")
    front = read_front(Section(whole, "frontend_conf", config, CONFIG))
    encoder = read_encoder(Section(whole, "audio_encoder_conf", config, CONFIG), front)
    section = Section(whole, "audio_adaptor_conf", config, CONFIG)
    # The decoder's config.json is one object, so its section has no name.
    decoder = read_decoder(checkpoint.llm, Section(checkpoint.llm, "", checkpoint.llm.config), {})
    adaptor = replace(read_adaptor(section), width=decoder.width)
    data: Any = config.get("dataset_conf") or {}
    dims = FunAsrDims(
        front=front,
        encoder=encoder,
        adaptor=adaptor,
        ctc=read_ctc(checkpoint, encoder),
        decoder=decoder,
        halvings=3 if section.values.get("use_low_frame_rate", False) else 0,
        system=bool(data.get("sys_prompt", True)),
        think=bool(data.get("do_think", True)),
    )
    expected = chain(encoder_shapes(dims), decoder_shapes(decoder, None))
    held = whole
    if dims.ctc is None:
        # A head of which tensors are missing is left out, as in the official code.
        kept = {name: stored for name, stored in whole.tensors.items() if not name.startswith(("ctc_decoder.", "ctc."))}
        held = replace(whole, tensors=kept)
    hold_tensors(held, expected)
    return dims


def read_front(front: Section) -> FrontDims:
    rate = front.integer("fs")
    for key, wanted in (("window", "hamming"), ("snip_edges", True), ("upsacle_samples", True)):
        if front.values.get(key, wanted) != wanted:
            raise front.error(key, f"{front.values[key]!r} is not {wanted!r}")
    cmvn = front.values.get("cmvn_file")
    return FrontDims(
        sample_rate=rate,
        frame_length=rate * front.integer("frame_length") // 1000,
        hop=rate * front.integer("frame_shift") // 1000,
        bins=front.integer("n_mels"),
        stacked=front.integer("lfr_m"),
        step=front.integer("lfr_n"),
        cmvn=None if cmvn is None else str(cmvn),
    )


def read_encoder(audio: Section, front: FrontDims) -> SenseVoiceDims:
    for key, wanted in (("normalize_before", True), ("concat_after", False), ("selfattention_layer_type", "sanm")):
        if audio.values.get(key, wanted) != wanted:
            raise audio.error(key, f"{audio.values[key]!r} is not {wanted!r}")
    dims = SenseVoiceDims(
        inputs=front.bins * front.stacked,
        width=audio.integer("output_size"),
        heads=audio.integer("attention_heads"),
        ffn=audio.integer("linear_units"),
        layers=audio.integer("num_blocks"),
        second=whole_number(audio, "tp_blocks", 0),
        kernel=audio.integer("kernel_size"),
        shift=whole_number(audio, "sanm_shfit", 0),
    )
    if dims.width % dims.heads:
        raise audio.error("output_size", f"{dims.width} is no multiple of {dims.heads} heads")
    if dims.shift > dims.kernel // 2:
        raise audio.error("sanm_shfit", f"{dims.shift} lies beyond a kernel of {dims.kernel}")
    return dims


def read_adaptor(section: Section) -> AdaptorDims:
    if section.values.get("downsample_rate", 2) != 1:
        raise section.error("downsample_rate", "only 1 is supported (the published checkpoints have it)")
    values = section.values
    dims = AdaptorDims(
        inner=section.integer("ffn_dim") if "ffn_dim" in values else 2048,
        width=section.integer("llm_dim"),
        heads=section.integer("attention_heads") if "attention_heads" in values else 8,
        layers=whole_number(section, "n_layer", 2),
    )
    if dims.width % dims.heads or dims.width % 4:
        raise section.error("llm_dim", f"{dims.width} is no multiple of {dims.heads} heads and of 4")
    return dims


def read_ctc(checkpoint: FunAsrCheckpoint, encoder: SenseVoiceDims) -> CtcDims | None:
    """The CTC head's dimensions, or None if the configuration names none or tensors of it are missing."""
    whole, config = checkpoint.whole, checkpoint.whole.config
    if str(config.get("ctc_decoder")) != "Transformer":
        return None
    section = Section(whole, "ctc_decoder_conf", config, CONFIG)
    adaptor = read_adaptor(section)
    if adaptor.width != encoder.width:
        raise section.error("llm_dim", f"{adaptor.width} is not the encoder's {encoder.width}")
    classes = config.get("ctc_vocab_size", 60515)
    blank = (config.get("ctc_conf") or {}).get("blank_id", classes - 1)
    dims = CtcDims(adaptor, int(classes), int(blank))
    expected = dict(ctc_shapes(dims, encoder.width))
    return dims if expected.keys() <= whole.tensors.keys() else None


def whole_number(section: Section, name: str, default: int) -> int:
    """The value of a key that may be missing or 0."""
    value = section.values.get(name, default)
    if value == 0 and not isinstance(value, bool):
        return 0
    return section.integer(name) if name in section.values else default


def linear(name: str, out: int, inputs: int) -> Shapes:
    yield f"{name}.weight", (out, inputs)
    yield f"{name}.bias", (out,)


def norm(name: str, width: int) -> Shapes:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def blocks(dims: SenseVoiceDims) -> Iterator[tuple[str, int]]:
    """The prefix of its tensors' names and the input width of every block of the encoder, in order."""
    yield "audio_encoder.encoders0.0.", dims.inputs
    yield from ((f"audio_encoder.encoders.{index}.", dims.width) for index in range(dims.layers - 1))
    yield from ((f"audio_encoder.tp_encoders.{index}.", dims.width) for index in range(dims.second))


def encoder_shapes(dims: FunAsrDims) -> Shapes:
    """Every tensor of encoder, adaptor and CTC head, and its shape."""
    encoder = dims.encoder
    for prefix, inputs in blocks(encoder):
        yield from linear(f"{prefix}self_attn.linear_q_k_v", 3 * encoder.width, inputs)
        yield from linear(f"{prefix}self_attn.linear_out", encoder.width, encoder.width)
        yield f"{prefix}self_attn.fsmn_block.weight", (encoder.width, 1, encoder.kernel)
        yield from linear(f"{prefix}feed_forward.w_1", encoder.ffn, encoder.width)
        yield from linear(f"{prefix}feed_forward.w_2", encoder.width, encoder.ffn)
        yield from norm(f"{prefix}norm1", inputs)
        yield from norm(f"{prefix}norm2", encoder.width)
    yield from norm("audio_encoder.after_norm", encoder.width)
    yield from norm("audio_encoder.tp_norm", encoder.width)
    yield from adaptor_shapes("audio_adaptor.", dims.adaptor, encoder.width)
    if dims.ctc is not None:
        yield from ctc_shapes(dims.ctc, encoder.width)


def adaptor_shapes(prefix: str, dims: AdaptorDims, inputs: int) -> Shapes:
    yield from linear(f"{prefix}linear1", dims.inner, inputs)
    yield from linear(f"{prefix}linear2", dims.width, dims.inner)
    for index in range(dims.layers):
        block = f"{prefix}blocks.{index}."
        for name in ("linear_q", "linear_k", "linear_v", "linear_out"):
            yield from linear(f"{block}self_attn.{name}", dims.width, dims.width)
        yield from linear(f"{block}feed_forward.w_1", dims.width // 4, dims.width)
        yield from linear(f"{block}feed_forward.w_2", dims.width, dims.width // 4)
        yield from norm(f"{block}norm1", dims.width)
        yield from norm(f"{block}norm2", dims.width)


def ctc_shapes(dims: CtcDims, inputs: int) -> Shapes:
    yield from adaptor_shapes("ctc_decoder.", dims.adaptor, inputs)
    yield from linear("ctc.ctc_lo", dims.classes, dims.adaptor.width)


def longest_rows(dims: FunAsrDims) -> int:
    """How many rows the longest clip has."""
    front = dims.front
    return LONGEST_SECONDS * front.sample_rate // (front.hop * front.step)
