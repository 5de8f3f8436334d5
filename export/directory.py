"""Writing the model directory of a Qwen3-ASR checkpoint: graphs, decoder, tokenizer, mel filters and manifest."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from audio.mel_filters import HOP, N_FFT, SAMPLE_RATE, mel_filters
from engines import manifest
from engines.integrity import sha256
from export.checkpoint import Checkpoint, CheckpointError, extras
from export.decoder import check_quantization, write_decoder
from export.dims import DecoderDims, Dims, EncoderDims
from export.known import Part, part, write_part
from export.names import BODY, CLIP, DECODER, HEAD, MEL, STEM, TOKENIZER, WEIGHTS, Precision, Quantization
from export.progress import SILENT, Meter
from export.tokenizer import ALIGNER_NEEDED, NEEDED, write_tokenizer
from streaming.prompt import QWEN


def write_directory(
    checkpoint: Checkpoint,
    dims: Dims,
    out: Path,
    *,
    encoder: Precision,
    decoder: Quantization,
    clip: bool,
    name: str | None,
    meter: Meter = SILENT,
) -> Path:
    """Write the model directory ``out``, whole or not at all: it is built beside it and moved into place.

    Raises:
        CheckpointError: ``out`` holds something that is no model directory, or the checkpoint cannot be exported with
            these options.
    """
    check_quantization(dims.decoder, decoder)
    extra = extras(checkpoint)
    label = name or extra.get("name") or out.resolve().name
    with building(out) as scratch:
        needed = ALIGNER_NEEDED if dims.aligner else NEEDED
        write_tokenizer(checkpoint, dims.decoder.vocabulary, scratch / TOKENIZER, needed=needed)
        np.save(scratch / MEL, mel_filters(dims.encoder.bins))
        if dims.aligner is not None:
            head = checkpoint.tensor("lm_head.weight", dims.aligner.classes, dims.decoder.width)
            np.save(scratch / HEAD, head.astype(np.float16 if encoder != "fp32" else np.float32))
        meter.begin("audio encoder")
        write_encoder(checkpoint, dims, scratch, encoder, clip=clip, meter=meter)
        meter.begin("text decoder")
        own_head = not dims.decoder.tied and dims.aligner is None
        write_decoder(checkpoint, dims.decoder, scratch / DECODER, decoder, name=label, head=own_head, meter=meter)
        meter.begin("checksums")
        manifest.write(describe(checkpoint, dims, scratch, encoder, decoder, clip, label, extra), scratch)
    return out


@contextmanager
def building(out: Path) -> Iterator[Path]:
    """Give the caller an empty directory beside ``out``, which replaces ``out`` if nothing is raised.

    Raises:
        CheckpointError: ``out`` holds something that is no model directory.
    """
    if out.exists() and any(out.iterdir()) and not (out / manifest.NAME).exists():
        raise CheckpointError(f"{out} is not empty and no model directory: nothing is overwritten")
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield scratch
        scratch.chmod(0o777 & ~umask())
        if out.exists():
            shutil.rmtree(out)
        os.replace(scratch, out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def encoder_part(dims: EncoderDims, precision: Precision) -> Part:
    """The part (export/known.py) that an encoder's graphs are: all that their structure depends on."""
    return part("encoder", dims=dims, precision=precision)


def write_encoder(
    checkpoint: Checkpoint, dims: Dims, out: Path, precision: Precision, *, clip: bool, meter: Meter = SILENT
) -> None:
    """Write the encoder's graphs and their common weight file."""

    def trace() -> None:
        from export.trace import parts

        parts.write(parts.encoder_graphs(checkpoint, dims.encoder, [precision], clip=clip), out, WEIGHTS)

    without = () if clip else (CLIP,)
    write_part(encoder_part(dims.encoder, precision), checkpoint, out, trace, without=without, meter=meter)


def describe(
    checkpoint: Checkpoint,
    dims: Dims,
    out: Path,
    precision: Precision,
    quantization: Quantization,
    clip: bool,
    name: str,
    extra: Mapping[str, Any],
) -> manifest.AsrManifest:
    """The manifest of the files in ``out``."""
    encoder, decoder, aligner = dims.encoder, dims.decoder, dims.aligner
    return manifest.AsrManifest(
        format=manifest.FORMAT,
        name=name,
        architecture="qwen3-forced-aligner" if aligner else "qwen3-asr",
        languages=languages(checkpoint),
        licence=licence(checkpoint, extra),
        mel=manifest.Mel(SAMPLE_RATE, N_FFT, HOP, encoder.bins, MEL, floor(checkpoint, extra)),
        encoder=manifest.Encoder(
            stem=STEM,
            body=BODY,
            precision=precision,
            chunk_frames=encoder.chunk_frames,
            chunk_rows=encoder.chunk_rows,
            window_rows=encoder.window_rows,
            stem_width=encoder.width,
            width=encoder.output,
            clip=CLIP if clip else None,
            ctc_blank=blank(checkpoint, dims, extra),
        ),
        decoder=describe_decoder(decoder, quantization),
        tokenizer=manifest.Tokenizer(TOKENIZER, bool(extra.get("text", {}).get("leading_space", False))),
        files={path.name: describe_file(path) for path in sorted(out.iterdir())},
        aligner=None if aligner is None else manifest.Aligner(aligner.classes, aligner.step, HEAD),
        source=str(checkpoint.config.get("_name_or_path") or checkpoint.directory.resolve().name),
    )


def describe_decoder(decoder: DecoderDims, quantization: Quantization) -> manifest.Decoder:
    """The decoder's part of the manifest."""
    return manifest.Decoder(
        file=DECODER,
        quantization=quantization,
        layers=decoder.layers,
        width=decoder.width,
        heads=decoder.heads,
        kv_heads=decoder.kv_heads,
        head_dim=decoder.head_dim,
        vocabulary=decoder.vocabulary,
        context=decoder.context,
    )


def check_described(checkpoint: Checkpoint, dims: Dims) -> None:
    """Check what only the manifest needs, so that nothing is converted in vain.

    Raises:
        CheckpointError: a value of config.json is not what it should be.
    """
    extra = extras(checkpoint)
    languages(checkpoint)
    floor(checkpoint, extra)
    blank(checkpoint, dims, extra)


def floor(checkpoint: Checkpoint, extra: Mapping[str, Any]) -> manifest.FixedFloor | manifest.ClipFloor:
    """The mel floor: the official one, unless the checkpoint says that it was trained with another."""
    value = extra.get("mel_floor")
    if value is None or value.get("kind") == "clip_max":
        return manifest.ClipFloor() if value is None else manifest.ClipFloor(float(value.get("range", 8.0)))
    if value.get("kind") == "fixed" and isinstance(value.get("log10"), int | float):
        return manifest.FixedFloor(float(value["log10"]))
    raise CheckpointError(
        f"{checkpoint.directory}/config.json: hearsay.mel_floor: neither fixed with log10 nor clip_max"
    )


def blank(checkpoint: Checkpoint, dims: Dims, extra: Mapping[str, Any]) -> int | None:
    """The CTC head's blank class: ``hearsay.ctc.blank``, else the one beyond the vocabulary."""
    if dims.encoder.ctc is None:
        return None
    value = extra.get("ctc", {}).get("blank", dims.decoder.vocabulary)
    if not isinstance(value, int) or not 0 <= value < dims.encoder.ctc:
        raise CheckpointError(
            f"{checkpoint.directory}/config.json: hearsay.ctc.blank {value} lies outside the head's "
            f"{dims.encoder.ctc} classes"
        )
    return value


def languages(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The ISO codes of the languages that ``support_languages`` names. The transformers layout lacks that key; all
    thirty languages of Qwen3-ASR are meant then.

    Raises:
        CheckpointError: a name is not among the thirty.
    """
    codes = {name: code for code, name in QWEN.items()}
    names = checkpoint.config.get("support_languages") or sorted(codes, key=codes.__getitem__)
    if unknown := [str(name) for name in names if name not in codes]:
        raise CheckpointError(f"{checkpoint.directory}/config.json: support_languages: unknown {', '.join(unknown)}")
    return tuple(codes[name] for name in names)


def licence(checkpoint: Checkpoint, extra: Mapping[str, Any]) -> str:
    """The licence by config.json's ``hearsay.licence``, else by the model card's front matter, else "unknown"."""
    if isinstance(extra.get("licence"), str):
        return extra["licence"]
    card = checkpoint.directory / "README.md"
    if card.exists():
        lines = card.read_text(encoding="utf-8", errors="replace").splitlines()
        if lines and lines[0].strip() == "---":
            for line in lines[1:]:
                if line.strip() == "---":
                    break
                key, _, value = line.partition(":")
                if key.strip() == "license" and value.strip():
                    return value.strip().strip("\"'")
    return "unknown"


def describe_file(path: Path) -> manifest.File:
    """The size and SHA-256 of a file, as the manifest lists them."""
    return manifest.File(path.stat().st_size, sha256(path))


def umask() -> int:
    """The process's umask (it can only be read by setting it)."""
    current = os.umask(0)
    os.umask(current)
    return current
