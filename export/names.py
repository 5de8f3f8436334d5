"""The names of formats, and of the files of a model directory."""

from typing import Literal, cast, get_args

from export.checkpoint import CheckpointError

Precision = Literal["fp32", "fp16", "int8"]
"""The precisions of graphs."""
Quantization = Literal["f32", "f16", "q8_0", "q6_k", "q4_k_m"]
"""The formats of GGUFs."""
FrameWeights = Literal["int4", "fp16", "fp32"]
"""How the matrices of a frame graph are stored: as for processors, as for CUDA, or unchanged, for tests."""

STEM, BODY, CLIP, WEIGHTS = "stem.onnx", "body.onnx", "clip.onnx", "encoder.weights"
DECODER, TOKENIZER, MEL, HEAD = "decoder.gguf", "tokenizer.json", "mel.npy", "aligner.npy"

CODEC, CODEC_WEIGHTS = "codec_decoder.onnx", "codec.weights"
CODEC_ENCODER, CODEC_ENCODER_WEIGHTS = "codec_encoder.onnx", "codec_encoder.weights"
SPEAKER_ENCODER, SPEAKER_ENCODER_WEIGHTS, SPEAKER_MEL = (
    "speaker_encoder.onnx",
    "speaker_encoder.weights",
    "speaker_mel.npy",
)
FROM_SLOTS, TO_SLOTS = "from_slots", "to_slots"
"""The inputs of a codec in fp16 that tell where states lie (export/trace/slots.py)."""
FRAME, FRAME_WEIGHTS = "predictor_frame.onnx", "predictor.weights"


def precision_of(value: str) -> Precision:
    """Return the value of ``--encoder`` if it is a precision; raise CheckpointError if not."""
    if value not in get_args(Precision):
        raise CheckpointError(f"encoder: {value!r} is not one of {', '.join(get_args(Precision))}")
    return cast(Precision, value)


def quantization_of(value: str) -> Quantization:
    """Return the value of ``--decoder`` if it is a format; raise CheckpointError if not."""
    if value not in get_args(Quantization):
        raise CheckpointError(f"decoder: {value!r} is not one of {', '.join(get_args(Quantization))}")
    return cast(Quantization, value)
