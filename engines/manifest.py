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
    ``body``: rows [W, T ≤ window_rows, stem_width], mask [W, T] (1 valid, 0 padding) → embeddings [W, T, width] and,
    where ``ctc_blank`` is set, ctc [W, T, vocabulary + 1] log-probabilities.
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


class CodecState(msgspec.Struct, frozen=True):
    """One tensor that a codec decoder hands to its next call: graph input, graph output, shape without the batch.

    Zero-filled before the first call. An axis of 0 starts empty and grows (in graphs made elsewhere; ours are static).
    """

    input: str
    output: str
    shape: tuple[int, ...]


class CodecDecoder(msgspec.Struct, frozen=True):
    """Stateful codec decoder graph.

    ``codes`` [B, N ≥ 1, codebooks] int64, padded on the right with −1; ``last`` [1] float; ``states`` →
    ``wave`` [B, N · frame_samples], ``samples`` int64 [B] (or [1]) valid samples, and every state's output.
    Float inputs and outputs are float16 where ``precision`` is fp16, else float32. ``lookahead``: frames that the graph
    holds back until ``last`` is 1; 0 in our graphs, where ``last`` has no effect.
    """

    file: str
    precision: Literal["fp32", "fp16", "int8"]
    codebooks: int
    entries: int
    frame_samples: int
    sample_rate: int
    states: tuple[CodecState, ...]
    codes: str = "audio_codes"
    last: str | None = "is_last"
    wave: str = "final_wav"
    samples: str = "valid_samples"
    lookahead: int = 0


class Predictor(msgspec.Struct, frozen=True):
    """Code predictor: codebooks 1 … of a frame, one pass each, positions from 0 in every frame.

    ``rows`` is a .npy file, float [talker vocabulary + (codebooks − 1) · entries, predictor width]: the rows that go
    in, laid out as ``TtsManifest.code_rows`` (it may be that file); None in small models, which leave it to the reader
    to put the code rows through ``weight`` and ``bias`` once. ``heads``: .npy, float [codebooks − 1, entries,
    width]; the logits of codebook g are ``heads[g − 1] @ hidden``, where hidden is the GGUF's state after its last norm
    (its own output matrix is a stub). ``weight`` [talker width, width] and ``bias`` [width]: .npy, what the talker's
    hidden state goes through before it goes in (``hidden @ weight + bias``); None where it goes in as it is.
    """

    decoder: Decoder
    rows: str | None
    heads: str
    weight: str | None = None
    bias: str | None = None


class TtsTokens(msgspec.Struct, frozen=True):
    """Special ids. ``role`` and ``tts_*`` are text ids, ``codec_*`` ids of the talker's vocabulary."""

    role: tuple[int, ...]
    tts_pad: int
    tts_bos: int
    tts_eos: int
    codec_pad: int
    codec_bos: int
    codec_eos: int
    codec_nothink: int
    codec_think_bos: int
    codec_think_eos: int
    codec_think: int | None = None


class Voice(msgspec.Struct, frozen=True):
    """A preset speaker: its id in the talker's vocabulary; its dialect (a key of ``language_ids``), if any."""

    id: int
    dialect: str | None = None


class TtsSampling(msgspec.Struct, frozen=True):
    """The checkpoint's own sampling (generation_config.json over qwen-tts' defaults)."""

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0
    max_frames: int = 2048
    min_frames: int = 2


class SpeakerEncoder(msgspec.Struct, frozen=True):
    """``mels`` [B, T, bins] float32 → ``embedding`` [B, talker width] float32.

    Mel: reflect padding of (n_fft − hop)/2, Hann window, magnitude √(|·|² + 1e-9), ``filters`` (.npy, float32
    [bins, n_fft/2 + 1]), natural log of at least 1e-5.
    """

    file: str
    filters: str
    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int


class CodecEncoder(msgspec.Struct, frozen=True):
    """``audio`` float32 [B, T], T = frames · ``frame_samples`` → ``codes`` int64 [B, frames, codebooks]."""

    file: str
    sample_rate: int
    frame_samples: int


class TextRules(msgspec.Struct, frozen=True):
    """What the model's text may hold, where it was trained on less than all of Unicode (config.json "hearsay".text).

    ``alphabet``: the letters and inner marks it knows (``abcdefghijklmnopqrstuvwxyz'``), None for any; text is folded
    to lower case first where that has no capitals. ``marks``: the punctuation it knows. ``ends``: one of these marks
    ends every text. ``longest``: most characters that it speaks in one go.
    """

    alphabet: str | None = None
    marks: str = ",.?!;:"
    ends: str = ""
    longest: int = 400


class TtsManifest(msgspec.Struct, frozen=True, tag="tts", tag_field="kind"):
    """A speaking model.

    ``text_rows``: .npy, float [text vocabulary, talker width], text embeddings already projected. ``code_rows``: .npy,
    float [talker vocabulary + (codebooks − 1) · entries, talker width]: the row of id i of the talker's vocabulary is
    i, that of code c of codebook g ≥ 1 is talker vocabulary + (g − 1) · entries + c. Both are made to be mapped.

    The talker's ids from ``codec.entries`` on are control ids: never sampled, but ``codec_eos``, the end.
    ``layouts``: ``stream`` (one text token a frame) and ``whole`` (all text first), what the model was trained for.
    """

    format: int
    name: str
    architecture: str
    variant: Literal["base", "custom_voice", "voice_design"]
    languages: tuple[str, ...]
    licence: str
    talker: Decoder
    predictor: Predictor
    text_rows: str
    code_rows: str
    codec: CodecDecoder
    tokenizer: Tokenizer
    tokens: TtsTokens
    voices: dict[str, Voice]
    language_ids: dict[str, int]
    """By ISO 639-1 code; dialects by their own name."""
    layouts: tuple[Literal["stream", "whole"], ...]
    instructions: bool
    """Whether an instruction may go before the text."""
    sampling: TtsSampling
    files: dict[str, File]
    speaker_encoder: SpeakerEncoder | None = None
    codec_encoder: CodecEncoder | None = None
    text: TextRules = TextRules()
    source: str = ""


Manifest = AsrManifest | TtsManifest


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


def read_asr(directory: Path) -> AsrManifest:
    """Read the manifest of a hearing model.

    Raises:
        ManifestError: as ``read``, or the model is of another kind.
    """
    manifest = read(directory)
    if not isinstance(manifest, AsrManifest):
        raise ManifestError(f"{directory} holds a speaking model ({manifest.name}), not one that hears")
    return manifest


def read_tts(directory: Path) -> TtsManifest:
    """Read the manifest of a speaking model.

    Raises:
        ManifestError: as ``read``, or the model is of another kind.
    """
    manifest = read(directory)
    if not isinstance(manifest, TtsManifest):
        raise ManifestError(f"{directory} holds a hearing model ({manifest.name}), not one that speaks")
    return manifest


def write(manifest: Manifest, directory: Path) -> None:
    """Write ``directory/model.json``, indented, keys in order of declaration."""
    (directory / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
