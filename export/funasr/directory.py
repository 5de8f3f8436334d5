"""Fun-ASR-Nano → a model directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engines import manifest
from export.checkpoint import Checkpoint, CheckpointError, extras
from export.decoder import check_quantization, write_decoder
from export.directory import (
    BODY,
    DECODER,
    MEL,
    TOKENIZER,
    WEIGHTS,
    Precision,
    Quantization,
    building,
    describe_decoder,
    describe_file,
    licence,
)
from export.funasr.checkpoint import CONFIG, FunAsrCheckpoint
from export.funasr.dims import FunAsrDims
from export.funasr.front import kaldi_filters, n_fft, read_cmvn
from export.tokenizer import write_tokenizer

CMVN = "cmvn.npy"
NEEDED = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
"""Tokens without which no prompt can be written."""

LONGEST_SECONDS = 30
"""What the published code cuts speech into before it is encoded (Fun-ASR, README: max_single_segment_time)."""

NANO = ("zh", "en", "ja")
MULTILINGUAL = (
    "zh", "en", "yue", "ja", "ko", "vi", "id", "th", "ms", "fil", "ar", "hi", "bg", "hr", "cs", "da", "nl", "et", "fi",
    "el", "hu", "ga", "lv", "lt", "mt", "pl", "pt", "ro", "sk", "sl", "sv",
)  # fmt: skip
"""What Fun-ASR-Nano and Fun-ASR-MLT-Nano hear (Fun-ASR, README); their configurations do not say."""


def write_funasr(
    checkpoint: FunAsrCheckpoint,
    dims: FunAsrDims,
    out: Path,
    *,
    encoder: Precision,
    decoder: Quantization,
    name: str | None,
) -> Path:
    """Write the model directory ``out``, whole or not at all.

    Raises:
        CheckpointError: ``out`` holds something that is no model directory, or the checkpoint cannot be exported so.
    """
    whole = checkpoint.whole
    check_quantization(dims.decoder, decoder)
    extra = extras(whole)
    label = name or extra.get("name") or out.resolve().name
    with building(out) as scratch:
        write_tokenizer(checkpoint.llm, dims.decoder.vocabulary, scratch / TOKENIZER, NEEDED)
        np.save(scratch / MEL, kaldi_filters(dims.front))
        if dims.front.cmvn is not None:
            path = whole.directory / Path(dims.front.cmvn).name
            np.save(scratch / CMVN, read_cmvn(path, dims.encoder.inputs))
        write_encoder(checkpoint, dims, scratch, encoder)
        write_decoder(whole, dims.decoder, scratch / DECODER, decoder, name=label, head=not dims.decoder.tied)
        manifest.write(describe(whole, dims, scratch, encoder, decoder, label, extra), scratch)
    return out


def write_encoder(checkpoint: FunAsrCheckpoint, dims: FunAsrDims, out: Path, precision: Precision) -> None:
    """Write the graph and its weights; it must pass the rules."""
    import torch

    from export import graphs, rules
    from export.funasr.encoder import build
    from export.quantize import quantize_graph

    half = precision == "fp16"
    model = graphs.whole_graph(
        build(checkpoint, dims, half),
        dims.encoder.inputs,
        longest_rows(dims),
        torch.float16 if half else torch.float32,
        ctc=dims.ctc is not None,
    )
    if precision == "int8":
        quantize_graph(model)
    rules.check(model, BODY)
    with graphs.WeightFile(out / WEIGHTS) as weights:
        weights.save(model, out / BODY)


def longest_rows(dims: FunAsrDims) -> int:
    """Rows of the longest clip."""
    front = dims.front
    return LONGEST_SECONDS * front.sample_rate // (front.hop * front.step)


def describe(
    checkpoint: Checkpoint,
    dims: FunAsrDims,
    out: Path,
    precision: Precision,
    quantization: Quantization,
    name: str,
    extra: Mapping[str, Any],
) -> manifest.AsrManifest:
    """The manifest of what lies in ``out``."""
    front, encoder = dims.front, dims.encoder
    blank = own_blank(checkpoint, dims, extra)
    energy_floor = manifest.FixedFloor(float(np.log10(np.finfo(np.float32).eps)))
    return manifest.AsrManifest(
        format=manifest.FORMAT,
        name=name,
        architecture="fun-asr-nano",
        languages=languages(checkpoint, extra),
        licence=licence(checkpoint, extra),
        mel=manifest.Mel(front.sample_rate, n_fft(front), front.hop, front.bins, MEL, energy_floor),
        encoder=manifest.Encoder(
            stem=None,
            body=BODY,
            precision=precision,
            chunk_frames=front.step,
            chunk_rows=1,
            window_rows=longest_rows(dims),
            stem_width=encoder.inputs,
            width=dims.adaptor.width,
            ctc_blank=blank,
        ),
        decoder=describe_decoder(dims.decoder, quantization),
        tokenizer=manifest.Tokenizer(TOKENIZER, bool(extra.get("text", {}).get("leading_space", False))),
        files={path.name: describe_file(path) for path in sorted(out.iterdir())},
        source=checkpoint.directory.resolve().name,
        family="fun-asr-nano",
        fun_asr=manifest.FunAsr(
            frame_length=front.frame_length,
            stacked=front.stacked,
            halvings=dims.halvings,
            system=dims.system,
            think=dims.think,
            cmvn=None if front.cmvn is None else CMVN,
            ctc=dims.ctc.classes if dims.ctc is not None and blank is None else None,
        ),
    )


def own_blank(checkpoint: Checkpoint, dims: FunAsrDims, extra: Mapping[str, Any]) -> int | None:
    """The blank of a CTC head whose other classes are the decoder's tokens, which ``hearsay.ctc.blank`` says of our own
    models; the published configuration has another tokenizer for that head."""
    value = extra.get("ctc", {}).get("blank")
    if value is None or dims.ctc is None:
        return None
    if value != dims.ctc.blank or not dims.decoder.vocabulary <= value < dims.ctc.classes:
        raise CheckpointError(
            f"{checkpoint.directory / CONFIG}: hearsay.ctc.blank: {value!r} is not the head's {dims.ctc.blank}, "
            f"or no class after the vocabulary's {dims.decoder.vocabulary}"
        )
    return value


def languages(checkpoint: Checkpoint, extra: Mapping[str, Any]) -> tuple[str, ...]:
    """``hearsay.languages``, else those of the published model that the directory's name tells."""
    if isinstance(found := extra.get("languages"), list):
        return tuple(map(str, found))
    return MULTILINGUAL if "mlt" in checkpoint.directory.resolve().name.lower() else NANO
