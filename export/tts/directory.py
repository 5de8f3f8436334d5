"""A Qwen3-TTS checkpoint → a model directory: codec graph, talker, predictor, tables, tokenizer, manifest."""

from pathlib import Path

import numpy as np

from audio.mel_filters import mel_filters
from engines import manifest
from export.checkpoint import Checkpoint
from export.decoder import check_quantization
from export.directory import Precision, Quantization, building, extras
from export.tokenizer import write_tokenizer
from export.tts import talker
from export.tts.checkpoint import TtsCheckpoint
from export.tts.codec_dims import CodecDims
from export.tts.description import (
    CODEC,
    CODEC_ENCODER,
    NEEDED,
    SPEAKER_ENCODER,
    SPEAKER_MEL,
    TOKENIZER,
    clones,
    describe,
    encodes,
    speaker_bins,
    speaker_rate,
)
from export.tts.dims import TtsDims

CODEC_WEIGHTS, CLONING_WEIGHTS, FRAME_WEIGHTS = "codec.weights", "cloning.weights", "predictor.weights"


def write_tts(
    checkpoint: TtsCheckpoint,
    dims: TtsDims,
    out: Path,
    *,
    codec: Precision,
    decoder: Quantization,
    name: str | None,
) -> Path:
    """Write the model directory ``out``, whole or not at all: it is built beside and moved into place.

    Args:
        codec: precision of the codec graph.
        decoder: format of both GGUFs; with f32 the tables stay float32, else they are float16.

    Raises:
        CheckpointError: ``out`` holds something that is no model directory, or the checkpoint cannot be exported so.
    """
    check_quantization(dims.talker, decoder)
    check_quantization(dims.predictor, decoder)
    extra = extras(checkpoint.model)
    label = name or extra.get("name") or out.resolve().name
    with building(out) as scratch:
        write_tokenizer(checkpoint.model, dims.text_vocabulary, scratch / TOKENIZER, NEEDED)
        write_codec(checkpoint.codec, dims.codec, scratch, codec)
        if clones(checkpoint):
            write_cloning(checkpoint, dims, scratch)
        talker.write_tables(checkpoint.model, dims, scratch, half=decoder != "f32")
        talker.write_talker(checkpoint.model, dims, scratch, decoder, name=label)
        talker.write_predictor(checkpoint.model, dims, scratch, decoder, name=label)
        if decoder == "q4_k_m":
            write_frame_graph(checkpoint.model, dims, scratch, half=decoder != "f32")
        manifest.write(describe(checkpoint, dims, scratch, codec, decoder, label, extra), scratch)
    return out


def write_codec(codec: Checkpoint, dims: CodecDims, out: Path, precision: Precision) -> None:
    """Write the codec decoder's graph and weights; it must pass the rules."""
    import torch

    from export import rules
    from export.graphs import WeightFile
    from export.tts.codec import build_codec
    from export.tts.graph import codec_graph
    from export.tts.storage import store_half, store_int8

    half = precision == "fp16"
    model = codec_graph(build_codec(codec, dims, half=half), torch.float16 if half else torch.float32)
    if precision == "int8":
        store_int8(model)
        store_half(model)
    rules.check(model, CODEC)
    with WeightFile(out / CODEC_WEIGHTS) as weights:
        weights.save(model, out / CODEC)


def write_frame_graph(model: Checkpoint, dims: TtsDims, out: Path, *, half: bool) -> None:
    """Write the predictor's frame graph beside its GGUF; ``half``: tables of rows are float16."""
    from export.graphs import WeightFile
    from export.tts.frame_graph import frame_graph

    read = talker.projects(dims) or not dims.projected  # a small projected table is float32, made by who reads it
    with WeightFile(out / FRAME_WEIGHTS) as weights:
        weights.save(frame_graph(model, dims, half=half and read), out / talker.FRAME)


def write_cloning(checkpoint: TtsCheckpoint, dims: TtsDims, out: Path) -> None:
    """Write the speaker encoder and its mel filters, and the codec's encoder where the checkpoint has it; float32."""
    from export import rules
    from export.graphs import WeightFile
    from export.tts import graph
    from export.tts.codec_encoder import build_codec_encoder
    from export.tts.speaker_encoder import N_FFT, build_speaker_encoder

    bins = speaker_bins(checkpoint.model)
    speaker = graph.speaker_encoder_graph(build_speaker_encoder(checkpoint.model), bins)
    # Its softmax pools over the whole clip, which holds no padding: there is no mask to add (rule 5).
    if found := [each for each in rules.violations(speaker) if each.rule != 5]:
        raise rules.RuleError(SPEAKER_ENCODER, found)
    with WeightFile(out / CLONING_WEIGHTS) as weights:
        if encodes(checkpoint):
            built = build_codec_encoder(checkpoint.codec, dims.codec)
            codec = graph.codec_encoder_graph(built, dims.codec.frame_samples)
            rules.check(codec, CODEC_ENCODER)
            weights.save(codec, out / CODEC_ENCODER)
        weights.save(speaker, out / SPEAKER_ENCODER)
    np.save(out / SPEAKER_MEL, mel_filters(bins, speaker_rate(checkpoint.model), N_FFT))
