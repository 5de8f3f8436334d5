"""model.json: the contract between the exporter and the runtime.

A model directory holds a ``model.json`` of this shape and the files it names. Every dimension the runtime needs stands
here, read from the checkpoint by the exporter; the runtime assumes none. ``sha256`` and ``bytes`` guard each file.
"""

from pathlib import Path
from typing import Literal

import msgspec

FORMAT = 1
NAME = "model.json"


class ManifestError(ValueError):
    """A model directory is unusable; the message says which field or file and why."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a model directory."""

    bytes: int
    sha256: str


class FixedFloor(msgspec.Struct, frozen=True, tag="fixed", tag_field="kind"):
    """Log-mel values are clamped from below at a constant: a frame depends on its own samples only."""

    log10: float


class ClipFloor(msgspec.Struct, frozen=True, tag="clip_max", tag_field="kind"):
    """The official floor: the clip's maximum minus ``range`` (log10). A stream freezes it window by window."""

    range: float = 8.0


class Mel(msgspec.Struct, frozen=True):
    """Log-mel front end. ``filters`` is a .npy file, float32 [bins, n_fft // 2 + 1]."""

    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int
    filters: str
    floor: FixedFloor | ClipFloor


class Encoder(msgspec.Struct, frozen=True):
    """Audio encoder graphs.

    ``stem``: mel [N, bins, chunk_frames] → rows [N, chunk_rows, stem_width].
    ``body``: rows [W, T ≤ window_rows, stem_width], mask [W, T] (1 valid, 0 padding) → embeddings [W, T, width] and, where
    ``ctc_blank`` is set, ctc [W, T, vocabulary + 1] log-probabilities.
    ``clip``: mel [B, bins, chunk_frames·C], valid_rows [B] int64 → embeddings [B, chunk_rows·C, width], uncut.
    Float inputs and outputs are float16 where ``precision`` is fp16, else float32.
    """

    stem: str
    body: str
    precision: Literal["fp32", "fp16", "int8"]
    chunk_frames: int
    chunk_rows: int
    window_rows: int
    stem_width: int
    width: int
    clip: str | None = None
    ctc_blank: int | None = None


class Decoder(msgspec.Struct, frozen=True):
    """Text decoder: a GGUF of llama.cpp's arch qwen3 without vocabulary; rows go in as embeddings."""

    file: str
    quantization: Literal["f32", "f16", "q8_0", "q6_k", "q4_k_m"]
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int


class Tokenizer(msgspec.Struct, frozen=True):
    """``file`` is a tokenizer.json of the tokenizers library. ``leading_space``: texts start with a space to strip."""

    file: str
    leading_space: bool = False


class Aligner(msgspec.Struct, frozen=True):
    """Qwen3-ForcedAligner: the decoder's head classifies time steps of ``step`` seconds at <timestamp> tokens.

    ``head`` is a .npy file, float [classes, decoder width], applied to the decoder's hidden state after its last norm:
    llama.cpp holds an output matrix to the vocabulary's size, and this one is smaller.
    """

    classes: int
    step: float
    head: str


class AsrManifest(msgspec.Struct, frozen=True, tag="asr", tag_field="kind"):
    """A hearing model."""

    format: int
    name: str
    architecture: str
    languages: tuple[str, ...]
    licence: str
    mel: Mel
    encoder: Encoder
    decoder: Decoder
    tokenizer: Tokenizer
    files: dict[str, File]
    aligner: Aligner | None = None
    source: str = ""


Manifest = AsrManifest


def read(directory: Path) -> Manifest:
    """Read ``directory/model.json``.

    Raises:
        ManifestError: no such file, not of this shape, or of another format version.
    """
    path = directory / NAME
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise ManifestError(f"{directory} holds no {NAME}: not a model directory") from None
    except msgspec.MsgspecError as error:
        raise ManifestError(f"{path}: {error}") from None
    if manifest.format != FORMAT:
        raise ManifestError(f"{path}: format {manifest.format}, this version reads {FORMAT}")
    return manifest


def write(manifest: Manifest, directory: Path) -> None:
    """Write ``directory/model.json``, indented, keys in order of declaration."""
    (directory / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
