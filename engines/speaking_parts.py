"""The parts of model.json that only speaking models have (engines/manifest.py)."""

from typing import Literal

import msgspec

from engines.parts import Decoder, Member


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
    holds back until ``last`` is 1, which it never is here: ``wave`` has them already; 0 in our graphs.
    """

    file: Member
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
    ``graph``: an ONNX graph that makes a whole frame in one call (export/tts/frame_graph.py); it is then run instead of
    the GGUF.
    """

    decoder: Decoder
    rows: Member | None
    heads: Member
    weight: Member | None = None
    bias: Member | None = None
    graph: Member | None = None


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


class CodeSampling(msgspec.Struct, frozen=True):
    """How codes are drawn.

    Attributes:
        temperature, top_k, top_p: of codebook 0; ``top_k`` 0 for all.
        repetition_penalty: divides positive and multiplies negative logits of every code 0 drawn before in the piece.
        predictor_temperature, predictor_top_k, predictor_top_p: of the other codebooks, which have no penalty.

    Raises:
        ValueError: a number outside its range; the message names it.
    """

    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0

    def __post_init__(self) -> None:
        for name in ("temperature", "predictor_temperature", "repetition_penalty"):
            if not 0 < getattr(self, name) <= 10:
                raise ValueError(f"{name}: {getattr(self, name):g} lies outside 0 (exclusive)…10")
        for name in ("top_p", "predictor_top_p"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name):g} lies outside 0 (exclusive)…1")
        for name in ("top_k", "predictor_top_k"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: {getattr(self, name)} is negative")


class TtsSampling(CodeSampling, frozen=True):
    """The checkpoint's own sampling (generation_config.json over qwen-tts' defaults), and frames of a piece."""

    max_frames: int = 2048
    min_frames: int = 2


class SpeakerEncoder(msgspec.Struct, frozen=True):
    """``mels`` [B, T, bins] float32 → ``embedding`` [B, talker width] float32.

    Mel: reflect padding of (n_fft − hop)/2, Hann window, magnitude √(|·|² + 1e-9), ``filters`` (.npy, float32
    [bins, n_fft/2 + 1]), natural log of at least 1e-5.
    """

    file: Member
    filters: Member
    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int


class CodecEncoder(msgspec.Struct, frozen=True):
    """``audio`` float32 [B, T], T = frames · ``frame_samples`` → ``codes`` int64 [B, frames, codebooks]."""

    file: Member
    sample_rate: int
    frame_samples: int


class TextRules(msgspec.Struct, frozen=True):
    """What the model's text may hold, where it was trained on less than all of Unicode (config.json "hearsay".text).

    ``alphabet``: the letters and inner marks it knows (``abcdefghijklmnopqrstuvwxyz'``), None for any; text is folded
    to lower case first where that has no capitals. ``marks``: the punctuation it knows. ``ends``: one of these marks
    ends every text. ``longest``: most characters that it speaks in one go. ``clause``: from so many on, the end of a
    clause ends a piece too; None for the runtime's share of ``longest``.
    """

    alphabet: str | None = None
    marks: str = ",.?!;:"
    ends: str = ""
    longest: int = 400
    clause: int | None = None
