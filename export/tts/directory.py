"""Writing the model directory of a Qwen3-TTS checkpoint: codec, talker, predictor, tables, tokenizer and manifest."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from audio.mel_filters import mel_filters
from engines import manifest
from export.checkpoint import Checkpoint
from export.decoder import check_quantization
from export.directory import building, extras
from export.known import Part, part, write_part
from export.names import (
    CODEC_ENCODER_WEIGHTS,
    CODEC_WEIGHTS,
    FRAME_WEIGHTS,
    SPEAKER_ENCODER,
    SPEAKER_ENCODER_WEIGHTS,
    TOKENIZER,
    FrameWeights,
    Precision,
    Quantization,
)
from export.progress import SILENT, Meter
from export.tokenizer import SPEAKING_NEEDED, write_tokenizer
from export.tts import talker
from export.tts.checkpoint import TtsCheckpoint
from export.tts.cloning_dims import N_FFT, read_codec_encoder, read_speaker_encoder
from export.tts.codec_dims import CodecDims
from export.tts.description import (
    CODEC_ENCODER,
    SPEAKER_MEL,
    clones,
    describe,
    encodes,
    frame_weights,
    speaker_rate,
)
from export.tts.dims import TtsDims
from export.tts.sounds import pronunciation, write_sounds


def write_tts(
    checkpoint: TtsCheckpoint,
    dims: TtsDims,
    out: Path,
    *,
    codec: Precision,
    decoder: Quantization,
    name: str | None,
    meter: Meter = SILENT,
) -> Path:
    """Write the model directory ``out``, whole or not at all: it is built beside it and moved into place.

    Args:
        codec: the precision of the codec's graph.
        decoder: the format of both GGUFs; with f32 the tables stay float32, else they are float16.

    Raises:
        CheckpointError: ``out`` holds something that is no model directory, or the checkpoint cannot be exported with
            these options.
    """
    check_quantization(dims.talker, decoder)
    check_quantization(dims.predictor, decoder)
    extra = extras(checkpoint.model)
    label = name or extra.get("name") or out.resolve().name
    with building(out) as scratch:
        write_tokenizer(checkpoint.model, dims.text_vocabulary, scratch / TOKENIZER, SPEAKING_NEEDED)
        if (sounds := pronunciation(checkpoint.model, extra)) is not None:
            write_sounds(checkpoint.model, sounds, scratch)
        meter.begin("codec")
        write_codec(checkpoint.codec, dims.codec, scratch, codec, meter)
        if clones(checkpoint):
            meter.begin("cloning")
            write_cloning(checkpoint, dims, scratch, meter)
        meter.begin("tables")
        talker.write_tables(checkpoint.model, dims, scratch, half=decoder != "f32", meter=meter)
        meter.begin("talker")
        talker.write_talker(checkpoint.model, dims, scratch, decoder, name=label, meter=meter)
        meter.begin("code predictor")
        talker.write_predictor(checkpoint.model, dims, scratch, decoder, name=label, meter=meter)
        if (weights := frame_weights(codec, decoder)) is not None:
            write_frame_graph(checkpoint.model, dims, scratch, weights, half=True, meter=meter)
        meter.begin("checksums")
        manifest.write(describe(checkpoint, dims, scratch, codec, decoder, label, extra), scratch)
    return out


def codec_part(dims: CodecDims, precision: Precision) -> Part:
    """The part (export/known.py) that the codec decoder's graph is: all that its structure depends on."""
    return part("codec", dims=dims, precision=precision)


def write_codec(codec: Checkpoint, dims: CodecDims, out: Path, precision: Precision, meter: Meter = SILENT) -> None:
    """Write the codec decoder's graph and weights."""

    def trace() -> None:
        from export.trace import parts

        parts.write(parts.codec_graphs(codec, dims, [precision]), out, CODEC_WEIGHTS)

    write_part(codec_part(dims, precision), codec, out, trace, meter=meter)


def frame_part(dims: TtsDims, weights: FrameWeights, *, half: bool) -> Part:
    """The part (export/known.py) that the frame graph is: all that its structure depends on. Graphs were kept before
    there were any but those in int4, which are told as then."""
    small = {name: value for name, value in asdict(dims.predictor).items() if name not in ("context", "tied")}
    more: dict[str, Any] = {"books": dims.codec.codebooks, "entries": dims.codec.entries}
    if weights != "int4":
        more["weights"] = weights
    return part("frame", dims=small, vocabulary=dims.talker.vocabulary, half=half, **more)


def write_frame_graph(
    model: Checkpoint, dims: TtsDims, out: Path, weights: FrameWeights, *, half: bool, meter: Meter = SILENT
) -> None:
    """Write the predictor's frame graph beside its GGUF; ``half`` tells whether the tables of rows are float16."""
    # A small table is projected by the runtime, in float32, whatever ``half`` says.
    read = talker.projects(dims) or not dims.projected

    def trace() -> None:
        from export.trace import parts

        parts.write(parts.frame_graphs(model, dims, [weights], half=half and read), out, FRAME_WEIGHTS)

    write_part(frame_part(dims, weights, half=half and read), model, out, trace, meter=meter)


def cloning_parts(checkpoint: TtsCheckpoint, dims: TtsDims) -> dict[str, Part]:
    """The parts (export/known.py) of the graphs for cloning, by file; empty if the checkpoint cannot clone."""
    if not clones(checkpoint):
        return {}
    found = {SPEAKER_ENCODER: part("speaker-encoder", dims=read_speaker_encoder(checkpoint.model))}
    if encodes(checkpoint):
        read = read_codec_encoder(checkpoint.codec, dims.codec)
        found[CODEC_ENCODER] = part("codec-encoder", dims=read, samples=dims.codec.frame_samples)
    return found


def write_cloning(checkpoint: TtsCheckpoint, dims: TtsDims, out: Path, meter: Meter = SILENT) -> None:
    """Write the speaker encoder and its mel filters, and the codec's encoder if the checkpoint has one, all in
    float32."""
    model, codec = checkpoint.model, checkpoint.codec
    speaker = read_speaker_encoder(model)

    def trace_speaker() -> None:
        from export.trace import parts

        parts.write(parts.speaker_graphs(model, speaker), out, SPEAKER_ENCODER_WEIGHTS)

    def trace_codec() -> None:
        from export.trace import parts

        read = read_codec_encoder(codec, dims.codec)
        made = parts.codec_encoder_graphs(codec, read, dims.codec.frame_samples)
        parts.write(made, out, CODEC_ENCODER_WEIGHTS)

    found = cloning_parts(checkpoint, dims)
    write_part(found[SPEAKER_ENCODER], model, out, trace_speaker, meter=meter)
    if CODEC_ENCODER in found:
        write_part(found[CODEC_ENCODER], codec, out, trace_codec, meter=meter)
    np.save(out / SPEAKER_MEL, mel_filters(speaker.bins, speaker_rate(model), N_FFT))
