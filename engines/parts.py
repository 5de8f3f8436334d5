"""The parts of model.json that hearing models are made of, and those that every model has (engines/manifest.py)."""

from typing import Annotated, Final, Literal

import msgspec

MEMBER: Final = msgspec.Meta(description="a file of the model directory")
Member = Annotated[str, MEMBER]
"""The path of a file inside the model directory, with ``/`` between folders. Every field that names one is of this
type: engines/manifest.py finds them by it."""


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
    """Log-mel front end. ``filters`` is a .npy file, float32 [bins, n_fft // 2 + 1].

    What happens between samples and bins is the family's: streaming/mel.py, streaming/fun_asr/fbank.py.
    """

    sample_rate: int
    n_fft: int
    hop_length: int
    bins: int
    filters: Member
    floor: FixedFloor | ClipFloor


class Encoder(msgspec.Struct, frozen=True):
    """Audio encoder graphs.

    ``stem``: mel [N, bins, chunk_frames] → rows [N, chunk_rows, stem_width].
    ``body``: rows [W, T ≤ window_rows, stem_width], mask [W, T] (1 valid, 0 padding) → embeddings [W, T, width] and,
    where ``ctc_blank`` is set, ctc [W, T, vocabulary + 1] log-probabilities. Older exports may have further outputs.
    ``clip``: mel [B, bins, chunk_frames·C], valid_rows [B] int64 → embeddings [B, chunk_rows·C, width], uncut.
    Float inputs and outputs are float16 where ``precision`` is fp16, else float32.

    Of the family fun-asr-nano ``body`` is all, and a window is as long as a clip may be: rows [B, T ≤ window_rows,
    stem_width] of stacked frames, valid_rows [B] int64 → embeddings [B, T, width] (, ctc). A row is a chunk.
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
    """What the family fun-asr-nano has beside the parts of qwen3-asr.

    A frame is ``frame_length`` samples; ``stacked`` frames make a row, a row each ``encoder.chunk_frames``. ``cmvn``:
    .npy float32 [2, stem_width], added to a row, then multiplied. Only the first ⌈rows / 2^halvings⌉ embeddings of a
    clip go into the decoder. ``system``: the prompt has a system turn; ``think``: the answer may begin with thoughts.
    ``ctc``: classes of the body's output ``ctc`` where they are not the decoder's tokens but those of the checkpoint's
    own CTC tokenizer; the runtime does not ask for it then.
    """

    frame_length: int
    stacked: int
    halvings: int
    system: bool
    think: bool
    cmvn: Member | None = None
    ctc: int | None = None

    def heard(self, rows: int) -> int:
        """How many of a clip's ``rows`` go into the decoder."""
        return -(-rows // 2**self.halvings)


class Decoder(msgspec.Struct, frozen=True):
    """Text decoder: a GGUF of llama.cpp's arch qwen3 without vocabulary; rows go in as embeddings."""

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
    """``file`` is a tokenizer.json of the tokenizers library. ``leading_space``: texts start with a space to strip."""

    file: Member
    leading_space: bool = False


class Aligner(msgspec.Struct, frozen=True):
    """Qwen3-ForcedAligner: the decoder's head classifies time steps of ``step`` seconds at <timestamp> tokens.

    ``head`` is a .npy file, float [classes, decoder width], applied to the decoder's hidden state after its last norm:
    llama.cpp holds an output matrix to the vocabulary's size, and this one is smaller.
    """

    classes: int
    step: float
    head: Member
