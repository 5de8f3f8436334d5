"""The parts of a model.json that only a speaking model's has (engines/manifest.py)."""

from typing import Annotated, Literal

import msgspec

from engines.parts import Decoder, Member


class CodecState(msgspec.Struct, frozen=True):
    """One tensor that a codec decoder hands from each call to the next: the names of the graph's input and output, and
    its shape without the batch.

    It is all zeros before the first call. An axis of length 0 is empty then and grows, in graphs of other exporters;
    shapes of ours are fixed.
    """

    input: str
    output: str
    shape: tuple[int, ...]


class CodecDecoder(msgspec.Struct, frozen=True):
    """The graph of a stateful codec decoder.

    It takes ``codes`` [B, N ≥ 1, codebooks] int64, padded on the right with −1, ``last`` [1] float, and ``states``. It
    gives ``wave`` [B, N · frame_samples], ``samples`` int64 [B] (or [1]), which tells how many of them are valid, and
    every state's output. Float inputs and outputs are float16 if ``precision`` is fp16, else float32.

    With ``slots`` the states are tables: the two inputs of these names, int64 [B], tell for each stream of a call from
    which of their rows its state is read and into which the next one is written (export/trace/slots.py).

    Some graphs of other exporters hold the last ``lookahead`` frames back in ``samples`` until ``last`` is 1. The
    runtime never sets it, since ``wave`` has those frames already. In our graphs ``lookahead`` is 0.
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
    slots: tuple[str, str] | None = None


class Predictor(msgspec.Struct, frozen=True):
    """The code predictor, which predicts the codebooks after the first of each frame, one pass each. Its positions
    begin at 0 in every frame.

    ``rows`` is a .npy file of the rows that go in, float [talker vocabulary + (codebooks − 1) · entries, predictor
    width], ordered as in ``TtsManifest.code_rows``, and may be that same file. It is None in small models, where the
    runtime computes it from the code rows by ``weight`` and ``bias``.

    ``heads`` is a .npy file, float [codebooks − 1, entries, width]. The logits of codebook g are
    ``heads[g − 1] @ hidden``, where hidden is the GGUF's state after its last norm; its own output matrix is a stub.

    ``weight`` [talker width, width] and ``bias`` [width] are .npy files of the projection that the talker's hidden
    state goes through first, ``hidden @ weight + bias``; None if it goes in as it is.

    ``graph`` is an ONNX graph that makes a whole frame in one call (export/trace/frame_graph.py), which runs instead of
    the GGUF on what it is for: its matrices are stored as ``graph_weights`` says, in int4 for processors or in fp16 for
    CUDA.
    """

    decoder: Decoder
    rows: Member | None
    heads: Member
    weight: Member | None = None
    bias: Member | None = None
    graph: Member | None = None
    graph_weights: Literal["int4", "fp16"] = "int4"


class TtsTokens(msgspec.Struct, frozen=True):
    """The special ids. ``role`` and ``tts_*`` are ids of text tokens, ``codec_*`` ids of the talker's vocabulary."""

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
    """A preset voice: its id in the talker's vocabulary, and its dialect (a key of ``language_ids``), if any."""

    id: int
    dialect: str | None = None
    gain: Annotated[float, msgspec.Meta(ge=-40, le=40)] = 0.0
    """By how many decibels, −40…40, its sound is made louder, so that all voices of a model are equally loud."""


class CodeSampling(msgspec.Struct, frozen=True):
    """How codes are drawn. The defaults are those of qwen-tts.

    Attributes:
        temperature, top_k, top_p: for codebook 0; a ``top_k`` of 0 keeps all codes.
        repetition_penalty: for codebook 0: positive logits of codes that were drawn before in the piece are divided by
            it, negative ones multiplied.
        predictor_temperature, predictor_top_k, predictor_top_p: for the other codebooks, which have no penalty.

    Raises:
        ValueError: a number lies outside its range; the message names it.
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
    """The checkpoint's own sampling (its generation_config.json, else qwen-tts' defaults), and how many frames a piece
    has at most and at least."""

    max_frames: int = 2048
    min_frames: int = 2


class SpeakerEncoder(msgspec.Struct, frozen=True):
    """The graph that makes a voice's embedding: it takes ``mels`` [B, T, bins] float32 and gives ``embedding`` [B,
    talker width] float32.

    The mel has reflect padding of (n_fft − hop)/2, a Hann window, magnitudes √(|·|² + 1e-9), ``filters`` (a .npy file,
    float32 [bins, n_fft/2 + 1]), and the natural logarithm of at least 1e-5.
    """

    file: Member
    filters: Member
    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int


class CodecEncoder(msgspec.Struct, frozen=True):
    """The graph that encodes sound: it takes ``audio`` float32 [B, frames · ``frame_samples``] and gives ``codes``
    int64 [B, frames, codebooks]."""

    file: Member
    sample_rate: int
    frame_samples: int


class Pronunciation(msgspec.Struct, frozen=True):
    """The files that tell how English words sound, for a model that reads sounds (codec/sounds).

    ``dictionary`` is a gzip of sorted lines, each a word and its sounds. ``neighbours`` is a JSON file of weights of
    the words around one that can be read in more than one way. ``guesses`` is a .npz file, the model for words that the
    dictionary lacks.
    """

    dictionary: Member
    neighbours: Member
    guesses: Member


class TextRules(msgspec.Struct, frozen=True):
    """What text the model can read, if it was trained on less than all of Unicode (config.json "hearsay".text).

    ``alphabet`` has the letters and inner marks that it knows (``abcdefghijklmnopqrstuvwxyz'``), None for any; if it
    has no capitals, text is folded to lower case. With ``sounds`` its letters are symbols of sounds
    (codec/sounds/symbols.py), into which words are turned. ``marks`` is the punctuation that it knows. Every text ends
    with one of the marks in ``ends``. ``longest`` is how many characters it speaks in one go. From ``clause``
    characters on the end of a clause ends a piece too; None leaves that to the runtime.
    """

    alphabet: str | None = None
    marks: str = ",.?!;:"
    ends: str = ""
    longest: int = 400
    clause: int | None = None
    sounds: Pronunciation | None = None
