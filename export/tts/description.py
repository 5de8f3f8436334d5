"""The manifest of an exported speaking model, out of the checkpoint's configuration and what was written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from engines import manifest
from export.checkpoint import Checkpoint, CheckpointError, read_json
from export.dims import DecoderDims
from export.directory import Precision, Quantization, describe_file, licence
from export.tts import talker
from export.tts.checkpoint import TtsCheckpoint, section
from export.tts.dims import TtsDims
from export.tts.state import states
from streaming.prompt import QWEN

CODEC, TOKENIZER = "codec_decoder.onnx", "tokenizer.json"
CODEC_ENCODER, SPEAKER_ENCODER = "codec_encoder.onnx", "speaker_encoder.onnx"
SPEAKER_MEL = "speaker_mel.npy"
NEEDED = ("<|im_start|>", "<|im_end|>")
"""Tokens without which no prompt can be written."""
ROLE = "<|im_start|>assistant\n"
"""What every prompt begins with; the official code takes it for three tokens (modeling_qwen3_tts.py:2157)."""

VARIANTS = ("base", "custom_voice", "voice_design")
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
"""Keys of generation_config.json → fields of the manifest."""


def clones(checkpoint: TtsCheckpoint) -> bool:
    """Whether the checkpoint has what cloning a voice needs (Base has)."""
    return "speaker_encoder.fc.weight" in checkpoint.model.tensors


def encodes(checkpoint: TtsCheckpoint) -> bool:
    """Whether the codec has its encoder, which cloning by a recording with its text needs (Base has)."""
    return any(name.startswith("encoder.") for name in checkpoint.codec.tensors)


def speaker_bins(model: Checkpoint) -> int:
    """Mel bins that the speaker encoder takes."""
    return model.tensors["speaker_encoder.blocks.0.conv.weight"].shape[1]


def speaker_rate(model: Checkpoint) -> int:
    """The sample rate of its audio; 24 kHz is the class's default."""
    return int((model.config.get("speaker_encoder_config") or {}).get("sample_rate", 24000))


def describe(
    checkpoint: TtsCheckpoint,
    dims: TtsDims,
    out: Path,
    precision: Precision,
    decoder: Quantization,
    name: str,
    extra: Mapping[str, Any],
) -> manifest.TtsManifest:
    """The manifest of what lies in ``out``."""
    model = checkpoint.model
    variant = model.config.get("tts_model_type")
    if variant not in VARIANTS:
        raise CheckpointError(
            f"{model.directory}/config.json: tts_model_type {variant!r} is not one of {', '.join(VARIANTS)}"
        )
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
            graph=talker.FRAME if (out / talker.FRAME).exists() else None,
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
        ),
        tokenizer=manifest.Tokenizer(TOKENIZER, bool(extra.get("text", {}).get("leading_space", False))),
        tokens=tokens(model, dims, out / TOKENIZER),
        voices=voices(model, dims, language_ids),
        language_ids=language_ids,
        layouts=tuple(extra.get("layouts", ("stream",) if extra else ("stream", "whole"))),
        instructions=bool(extra.get("instructions", instructions and not extra)),
        text=text_rules(extra),
        **cloning_of(checkpoint, dims),
        sampling=sampling(model),
        files={path.name: describe_file(path) for path in sorted(out.iterdir())},
        source=str(model.config.get("_name_or_path") or model.directory.resolve().name),
    )


def cloning_of(checkpoint: TtsCheckpoint, dims: TtsDims) -> dict[str, Any]:
    """The manifest's fields for cloning; none where the checkpoint cannot."""
    if not clones(checkpoint):
        return {}
    from export.tts.speaker_encoder import HOP, N_FFT

    rate, bins = speaker_rate(checkpoint.model), speaker_bins(checkpoint.model)
    found: dict[str, Any] = {
        "speaker_encoder": manifest.SpeakerEncoder(SPEAKER_ENCODER, SPEAKER_MEL, rate, N_FFT, HOP, bins)
    }
    if encodes(checkpoint):
        codec = dims.codec
        found["codec_encoder"] = manifest.CodecEncoder(CODEC_ENCODER, codec.sample_rate, codec.frame_samples)
    return found


def predictor_rows(dims: TtsDims) -> str | None:
    """The file of the rows that go into the predictor."""
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
    """``codec_language_id`` by ISO code; what is no language of that list (a dialect) keeps its name."""
    codes = {name.lower(): code for code, name in QWEN.items()}
    return {codes.get(name, name): identity for name, identity in ids(model, "codec_language_id").items()}


def text_rules(extra: Mapping[str, Any]) -> manifest.TextRules:
    """``hearsay.text``: the characters that a small model was trained on; official checkpoints take any text."""
    text = extra.get("text")
    if not isinstance(text, dict):
        return manifest.TextRules()
    return manifest.TextRules(
        alphabet=text.get("alphabet"),
        marks=text.get("marks", ""),
        ends=text.get("ends", ""),
        longest=text.get("longest", 120),  # small models were trained on up to 190, and skip less in what is shorter
        clause=text.get("clause", 40),
    )


def ids(model: Checkpoint, key: str) -> Mapping[str, Any]:
    """An object of ``talker_config``, empty if it is not there."""
    value = section(model, "talker_config").get(key) or {}
    if not isinstance(value, dict):
        raise CheckpointError(f"{model.directory}/config.json: talker_config.{key}: no object")
    return cast("Mapping[str, Any]", value)


def voices(model: Checkpoint, dims: TtsDims, language_ids: Mapping[str, int]) -> dict[str, manifest.Voice]:
    """The preset speakers."""
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
    """Special ids, each within its table.

    Raises:
        CheckpointError: an id is missing or outside, or the tokenizer does not make three tokens of the role.
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
    """generation_config.json over the official code's defaults (qwen3_tts_model.py:319-330).

    Raises:
        CheckpointError: a number is none, or outside its range; names it as the manifest does.
    """
    path = model.directory / "generation_config.json"
    values = read_json(path) if path.exists() else {}
    chosen = {ours: values[theirs] for theirs, ours in SAMPLING.items() if theirs in values}
    try:
        return msgspec.convert(chosen, manifest.TtsSampling)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path}: {error}") from None
