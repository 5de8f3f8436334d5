"""The parts of a hearing model's model.json, and those that every model's has (engines/manifest.py)."""

from typing import Annotated, Final, Literal

import msgspec

MEMBER: Final = msgspec.Meta(description="a file of the model directory")
Member = Annotated[str, MEMBER]
"""The path of a file inside the model directory, with ``/`` between folders. Every field that names a file has this
type, by which engines/manifest.py finds them."""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size and SHA-256 (lower-case hexadecimal) of one file of a model directory."""

    bytes: int
    sha256: str


class FixedFloor(msgspec.Struct, frozen=True, tag="fixed", tag_field="kind"):
    """Log-mel values are clamped from below at a constant: a frame depends on its own samples only."""

    log10: float


class ClipFloor(msgspec.Struct, frozen=True, tag="clip_max", tag_field="kind"):
    """The official floor: the clip's maximum less ``range`` (log10). In a stream each window's is fixed when it
    closes."""

    range: float = 8.0


class Mel(msgspec.Struct, frozen=True):
    """The log-mel front end. ``filters`` is a .npy file, float32 [bins, n_fft // 2 + 1].

    How bins are computed from samples depends on the family: streaming/mel.py, streaming/families.
    """

    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int
    filters: Member
    floor: FixedFloor | ClipFloor


class Encoder(msgspec.Struct, frozen=True):
    """The graphs of an audio encoder.

    ``stem`` takes mel [N, bins, chunk_frames] and gives rows [N, chunk_rows, stem_width].
    ``body`` takes rows [W, T ≤ window_rows, stem_width] and mask [W, T] (1 for a row, 0 for padding), and gives
    embeddings [W, T, width] and, if ``ctc_blank`` is set, ctc [W, T, vocabulary + 1] log-probabilities. Graphs of older
    exports have further outputs.
    ``clip``, which the runtime does not use, takes mel [B, bins, chunk_frames·C] and valid_rows [B] int64, and gives
    embeddings [B, chunk_rows·C, width], those of padding included.
    Float inputs and outputs are float16 if ``precision`` is fp16, else float32.

    In the family fun-asr-nano ``body`` is the whole encoder, a chunk is one row, and a window is as long as a clip may
    be: body takes rows [B, T ≤ window_rows, stem_width] of stacked frames and valid_rows [B] int64, and gives
    embeddings [B, T, width], and ctc.
    """

    stem: Member | None
    body: Member
    precision: Literal["fp32", "fp16", "int8"]
    chunk_frames: int
    chunk_rows: int
    window_rows: int
    stem_width: int
    width: int
    clip: Member | None = None
    ctc_blank: int | None = None


class FunAsr(msgspec.Struct, frozen=True):
    """What models of the family fun-asr-nano have in addition to those of qwen3-asr.

    A frame has ``frame_length`` samples. ``stacked`` frames make a row, and a row begins every ``encoder.chunk_frames``
    frames. ``cmvn`` is a .npy file, float32 [2, stem_width]: its first line is added to each row, which is then
    multiplied by its second. Of a clip's embeddings only the first ⌈rows / 2^halvings⌉ go into the decoder. ``system``
    tells whether the prompt has a system turn, ``think`` whether the answer may begin with thoughts. ``ctc`` is the
    number of classes of the body's output ``ctc`` if they are not the decoder's tokens but those of the checkpoint's
    own CTC tokenizer; the runtime does not use that output then.
    """

    frame_length: int
    stacked: int
    halvings: int
    system: bool
    think: bool
    cmvn: Member | None = None
    ctc: int | None = None

    def decoder_rows(self, rows: int) -> int:
        """How many of a clip's embeddings go into the decoder, if it has so many ``rows``."""
        return -(-rows // 2**self.halvings)


class Decoder(msgspec.Struct, frozen=True):
    """A text decoder: a GGUF of llama.cpp's architecture qwen3 without a vocabulary. Rows go in as embeddings."""

    file: Member
    quantization: Literal["f32", "f16", "q8_0", "q6_k", "q4_k_m"]
    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int


class Tokenizer(msgspec.Struct, frozen=True):
    """``file`` is a tokenizer.json of the tokenizers library. ``leading_space`` tells whether the model's texts begin
    with a space, which is not part of the text."""

    file: Member
    leading_space: bool = False


class Aligner(msgspec.Struct, frozen=True):
    """What a Qwen3-ForcedAligner has in addition: a head that tells at <timestamp> tokens in which of ``classes`` steps
    of ``step`` seconds a word begins or ends.

    ``head`` is a .npy file, float [classes, decoder width], applied to the decoder's hidden state after its last norm.
    It is not in the GGUF, since llama.cpp expects an output matrix of the vocabulary's size.
    """

    classes: int
    step: float
    head: Member
