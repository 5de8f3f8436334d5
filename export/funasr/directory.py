"""Writing the model directory of a Fun-ASR-Nano checkpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engines import manifest
from export.checkpoint import Checkpoint, CheckpointError, extras
from export.decoder import check_quantization, write_decoder
from export.directory import building, describe_decoder, describe_file, licence
from export.funasr.checkpoint import CONFIG, FunAsrCheckpoint
from export.funasr.dims import FunAsrDims, longest_rows
from export.funasr.front import kaldi_filters, n_fft, read_cmvn
from export.known import Part, part, write_part
from export.names import BODY, DECODER, MEL, TOKENIZER, WEIGHTS, Precision, Quantization
from export.progress import SILENT, Meter
from export.tokenizer import write_tokenizer

CMVN = "cmvn.npy"
NEEDED = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
"""The special tokens of the prompt."""

NANO = ("zh", "en", "ja")
MULTILINGUAL = (
    "zh", "en", "yue", "ja", "ko", "vi", "id", "th", "ms", "fil", "ar", "hi", "bg", "hr", "cs", "da", "nl", "et", "fi",
    "el", "hu", "ga", "lv", "lt", "mt", "pl", "pt", "ro", "sk", "sl", "sv",
)  # fmt: skip
"""The languages of Fun-ASR-Nano and of Fun-ASR-MLT-Nano (Fun-ASR, README), which their configurations do not name."""


def write_funasr(
    checkpoint: FunAsrCheckpoint,
    dims: FunAsrDims,
    out: Path,
    *,
    encoder: Precision,
    decoder: Quantization,
    name: str | None,
    meter: Meter = SILENT,
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
        meter.begin("audio encoder")
        write_encoder(checkpoint, dims, scratch, encoder, meter)
        meter.begin("text decoder")
        own_head = not dims.decoder.tied
        write_decoder(whole, dims.decoder, scratch / DECODER, decoder, name=label, head=own_head, meter=meter)
        meter.begin("checksums")
        manifest.write(describe(whole, dims, scratch, encoder, decoder, label, extra), scratch)
    return out


def encoder_part(dims: FunAsrDims, precision: Precision) -> Part:
    """The part (export/known.py) that the encoder's graph is: all that its structure depends on."""
    values = {"encoder": dims.encoder, "adaptor": dims.adaptor, "ctc": dims.ctc, "longest": longest_rows(dims)}
    return part("fun-asr", precision=precision, **values)


def write_encoder(
    checkpoint: FunAsrCheckpoint, dims: FunAsrDims, out: Path, precision: Precision, meter: Meter = SILENT
) -> None:
    """Write the encoder's graph and its weights."""

    def trace() -> None:
        from export.trace import parts

        parts.write(parts.funasr_graphs(checkpoint, dims, [precision]), out, WEIGHTS)

    write_part(encoder_part(dims, precision), checkpoint.whole, out, trace, meter=meter)


def describe(
    checkpoint: Checkpoint,
    dims: FunAsrDims,
    out: Path,
    precision: Precision,
    quantization: Quantization,
    name: str,
    extra: Mapping[str, Any],
) -> manifest.AsrManifest:
    """The manifest of the files in ``out``."""
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
    """The blank of a CTC head whose other classes are the decoder's tokens. Only our own models have such a head, and
    name its blank in ``hearsay.ctc.blank``; published ones have another tokenizer for it, and the result is None."""
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
    """The languages that ``hearsay.languages`` names, else those of the published model that the directory is named
    after."""
    if isinstance(found := extra.get("languages"), list):
        return tuple(map(str, found))
    return MULTILINGUAL if "mlt" in checkpoint.directory.resolve().name.lower() else NANO
