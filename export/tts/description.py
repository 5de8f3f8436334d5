"""The manifest of an exported speaking model, made from the checkpoint's configuration and the files written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from engines import manifest
from export.checkpoint import Checkpoint, CheckpointError, extras, read_json
from export.dims import DecoderDims
from export.directory import describe_file, licence
from export.names import (
    CODEC,
    CODEC_ENCODER,
    FRAME,
    FROM_SLOTS,
    SPEAKER_ENCODER,
    SPEAKER_MEL,
    TO_SLOTS,
    TOKENIZER,
    Precision,
    Quantization,
)
from export.tts import talker
from export.tts.checkpoint import TtsCheckpoint, section
from export.tts.cloning_dims import HOP, N_FFT
from export.tts.dims import TtsDims
from export.tts.sounds import pronunciation
from export.tts.state import states
from streaming.prompt import QWEN

ROLE = "<|im_start|>assistant\n"
"""The text that every prompt begins with. The official code relies on it being three tokens
(modeling_qwen3_tts.py:2157)."""

VARIANTS = ("base", "custom_voice", "voice_design")
"""The kinds of checkpoints: for cloning voices, with preset voices, and with voices by description."""
SAMPLING = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "repetition_penalty": "repetition_penalty",
    "subtalker_temperature": "predictor_temperature",
    "subtalker_top_k": "predictor_top_k",
    "subtalker_top_p": "predictor_top_p",
    "max_new_tokens": "max_frames",
}
"""The keys of generation_config.json, with the manifest's fields for them."""


def clones(checkpoint: TtsCheckpoint) -> bool:
    """Whether the checkpoint can clone a voice, for which it needs a speaker encoder. Base checkpoints have one."""
    return "speaker_encoder.fc.weight" in checkpoint.model.tensors


def encodes(checkpoint: TtsCheckpoint) -> bool:
    """Whether the codec has an encoder, which cloning by a recording and its text needs. Base checkpoints have one."""
    return any(name.startswith("encoder.") for name in checkpoint.codec.tensors)


def speaker_bins(model: Checkpoint) -> int:
    """How many mel bins the speaker encoder takes."""
    return model.tensors["speaker_encoder.blocks.0.conv.weight"].shape[1]


def speaker_rate(model: Checkpoint) -> int:
    """The sample rate in Hz of the speaker encoder's audio; 24 kHz is the default of the official class."""
    return int((model.config.get("speaker_encoder_config") or {}).get("sample_rate", 24000))


def variant_of(model: Checkpoint) -> Literal["base", "custom_voice", "voice_design"]:
    """Which of the published kinds of model it is.

    Raises:
        CheckpointError: none of them.
    """
    variant = model.config.get("tts_model_type")
    if variant not in VARIANTS:
        raise CheckpointError(
            f"{model.directory}/config.json: tts_model_type {variant!r} is not one of {', '.join(VARIANTS)}"
        )
    return variant


def check_described(checkpoint: TtsCheckpoint, dims: TtsDims) -> None:
    """Check what only the manifest needs, so that nothing is converted in vain.

    Raises:
        CheckpointError: a value of config.json is not what it should be.
    """
    model = checkpoint.model
    variant_of(model)
    voices(model, dims, languages(model))
    text_rules(model, extras(model))
    sampling(model)


def describe(
    checkpoint: TtsCheckpoint,
    dims: TtsDims,
    out: Path,
    precision: Precision,
    decoder: Quantization,
    name: str,
    extra: Mapping[str, Any],
) -> manifest.TtsManifest:
    """The manifest of the files in ``out``."""
    model = checkpoint.model
    variant = variant_of(model)
    language_ids = languages(model)
    # The official code drops the instruction for the small model (qwen3_tts_model.py:799-800).
    instructions = variant == "voice_design" or (
        variant == "custom_voice" and model.config.get("tts_model_size") != "0b6"
    )
    small = dims.predictor
    return manifest.TtsManifest(
        format=manifest.FORMAT,
        name=name,
        architecture="qwen3-tts",
        variant=variant,
        languages=tuple(extra.get("languages") or sorted(code for code in language_ids if code in QWEN)),
        licence=licence(model, extra),
        talker=decoder_of(dims.talker, talker.TALKER, decoder, dims.talker.vocabulary),
        predictor=manifest.Predictor(
            decoder=decoder_of(small, talker.PREDICTOR, decoder, talker.STUB_ROWS),
            rows=predictor_rows(dims),
            heads=talker.HEADS,
            weight=talker.WEIGHT if dims.projected else None,
            bias=talker.BIAS if dims.projected else None,
            graph=FRAME if (out / FRAME).exists() else None,
            graph_weights=frame_weights(precision, decoder) or "int4",
        ),
        text_rows=talker.TEXT_ROWS,
        code_rows=talker.CODE_ROWS,
        codec=manifest.CodecDecoder(
            file=CODEC,
            precision=precision,
            codebooks=dims.codec.codebooks,
            entries=dims.codec.entries,
            frame_samples=dims.codec.frame_samples,
            sample_rate=dims.codec.sample_rate,
            states=tuple(manifest.CodecState(each.name, each.next, each.shape) for each in states(dims.codec)),
            slots=(FROM_SLOTS, TO_SLOTS) if precision == "fp16" else None,
        ),
        tokenizer=manifest.Tokenizer(TOKENIZER, bool(extra.get("text", {}).get("leading_space", False))),
        tokens=tokens(model, dims, out / TOKENIZER),
        voices=voices(model, dims, language_ids),
        language_ids=language_ids,
        layouts=tuple(extra.get("layouts", ("stream",) if extra else ("stream", "whole"))),
        instructions=bool(extra.get("instructions", instructions and not extra)),
        text=text_rules(model, extra),
        **cloning_of(checkpoint, dims),
        sampling=sampling(model),
        files={path.name: describe_file(path) for path in sorted(out.iterdir())},
        source=str(model.config.get("_name_or_path") or model.directory.resolve().name),
    )


def cloning_of(checkpoint: TtsCheckpoint, dims: TtsDims) -> dict[str, Any]:
    """The manifest's fields for cloning; empty if the checkpoint cannot clone."""
    if not clones(checkpoint):
        return {}
    rate, bins = speaker_rate(checkpoint.model), speaker_bins(checkpoint.model)
    found: dict[str, Any] = {
        "speaker_encoder": manifest.SpeakerEncoder(SPEAKER_ENCODER, SPEAKER_MEL, rate, N_FFT, HOP, bins)
    }
    if encodes(checkpoint):
        codec = dims.codec
        found["codec_encoder"] = manifest.CodecEncoder(CODEC_ENCODER, codec.sample_rate, codec.frame_samples)
    return found


def predictor_rows(dims: TtsDims) -> str | None:
    """The file of the rows that go into the predictor; None if the runtime projects them itself."""
    if not dims.projected:
        return talker.CODE_ROWS
    return talker.PREDICTOR_ROWS if talker.projects(dims) else None


def decoder_of(dims: DecoderDims, file: str, quantization: Quantization, vocabulary: int) -> manifest.Decoder:
    return manifest.Decoder(
        file=file,
        quantization=quantization,
        layers=dims.layers,
        width=dims.width,
        heads=dims.heads,
        kv_heads=dims.kv_heads,
        head_dim=dims.head_dim,
        vocabulary=vocabulary,
        context=dims.context,
    )


def languages(model: Checkpoint) -> dict[str, int]:
    """The ids in ``codec_language_id`` by the languages' ISO codes; a dialect keeps its name."""
    codes = {name.lower(): code for code, name in QWEN.items()}
    return {codes.get(name, name): identity for name, identity in ids(model, "codec_language_id").items()}


def text_rules(model: Checkpoint, extra: Mapping[str, Any]) -> manifest.TextRules:
    """The rules for text in ``hearsay.text``, by which our own small models tell what they were trained on. Official
    checkpoints take any text."""
    text = extra.get("text")
    if not isinstance(text, dict):
        return manifest.TextRules()
    return manifest.TextRules(
        alphabet=text.get("alphabet"),
        marks=text.get("marks", ""),
        ends=text.get("ends", ""),
        longest=text.get("longest", 120),  # Small models were trained on up to 190, and skip fewer words in less.
        clause=text.get("clause", 40),
        sounds=pronunciation(model, extra),
    )


def ids(model: Checkpoint, key: str) -> Mapping[str, Any]:
    """The object ``key`` of ``talker_config``; empty if it is not there."""
    value = section(model, "talker_config").get(key) or {}
    if not isinstance(value, dict):
        raise CheckpointError(f"{model.directory}/config.json: talker_config.{key}: no object")
    return cast("Mapping[str, Any]", value)


def voices(model: Checkpoint, dims: TtsDims, language_ids: Mapping[str, int]) -> dict[str, manifest.Voice]:
    """The preset voices."""
    dialects = ids(model, "spk_is_dialect")
    found: dict[str, manifest.Voice] = {}
    for name, identity in ids(model, "spk_id").items():
        dialect = dialects.get(name) or None
        if dialect is not None and dialect not in language_ids:
            raise CheckpointError(
                f"{model.directory}/config.json: spk_is_dialect.{name}: {dialect!r} is no codec_language_id"
            )
        if not isinstance(identity, int) or not 0 <= identity < dims.talker.vocabulary:
            raise CheckpointError(
                f"{model.directory}/config.json: spk_id.{name}: {identity!r} lies outside the codec vocabulary"
            )
        found[name] = manifest.Voice(identity, dialect)
    return found


def tokens(model: Checkpoint, dims: TtsDims, tokenizer: Path) -> manifest.TtsTokens:
    """The special ids, each checked against the size of its table.

    Raises:
        CheckpointError: an id is missing or outside its table, or the role is not three tokens.
    """
    from tokenizers import Tokenizer

    role = tuple(Tokenizer.from_file(str(tokenizer)).encode(ROLE, add_special_tokens=False).ids)
    if len(role) != 3:
        raise CheckpointError(
            f"{model.directory}: the tokenizer makes {len(role)} tokens of {ROLE!r}; the prompt needs 3"
        )
    config = section(model, "talker_config")

    def identity(values: Mapping[str, Any], key: str, limit: int) -> int:
        value = values.get(key)
        if not isinstance(value, int) or not 0 <= value < limit:
            raise CheckpointError(f"{model.directory}/config.json: {key}: {value!r} is not an id below {limit}")
        return value

    def text(key: str) -> int:
        return identity(model.config, key, dims.text_vocabulary)

    def codec(key: str) -> int:
        return identity(config, key, dims.talker.vocabulary)

    end = codec("codec_eos_token_id")
    if end < dims.codec.entries:
        raise CheckpointError(
            f"{model.directory}/config.json: codec_eos_token_id {end} is one of the {dims.codec.entries} codes"
        )
    return manifest.TtsTokens(
        role=role,
        tts_pad=text("tts_pad_token_id"),
        tts_bos=text("tts_bos_token_id"),
        tts_eos=text("tts_eos_token_id"),
        codec_pad=codec("codec_pad_id"),
        codec_bos=codec("codec_bos_id"),
        codec_eos=end,
        codec_nothink=codec("codec_nothink_id"),
        codec_think_bos=codec("codec_think_bos_id"),
        codec_think_eos=codec("codec_think_eos_id"),
        codec_think=None if config.get("codec_think_id") is None else codec("codec_think_id"),
    )


def sampling(model: Checkpoint) -> manifest.TtsSampling:
    """How codes are drawn: by generation_config.json, else by the official code's defaults
    (qwen3_tts_model.py:319-330).

    Raises:
        CheckpointError: a value is no number, or outside its range; the message names the manifest's field.
    """
    path = model.directory / "generation_config.json"
    values = read_json(path) if path.exists() else {}
    chosen = {ours: values[theirs] for theirs, ours in SAMPLING.items() if theirs in values}
    try:
        return msgspec.convert(chosen, manifest.TtsSampling)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path}: {error}") from None


def frame_weights(codec: Precision, decoder: Quantization) -> Literal["int4", "fp16"] | None:
    """How the matrices of the frame graph are stored, if there is one: as for processors where they have 4 bits anyway,
    also beside a codec that DirectML runs in fp16; else as for CUDA if the codec is in fp16."""
    if decoder == "q4_k_m":
        return "int4"
    return "fp16" if codec == "fp16" and decoder != "f32" else None
