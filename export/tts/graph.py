"""Modules of a speaking model → ONNX graphs."""

import onnx
import torch
from torch import Tensor
from torch.export import Dim

from export.graphs import OPSET, quiet, tidy, trace
from export.tts.codec import CodecDecoder
from export.tts.codec_encoder import CodecEncoder
from export.tts.speaker_encoder import SpeakerEncoder
from export.tts.state import State, states

CODES, LAST, WAVE, SAMPLES = "audio_codes", "is_last", "final_wav", "valid_samples"


def zeros(kept: list[State], batch: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The state before the first call."""
    return tuple(torch.zeros(batch, *state.shape, dtype=dtype) for state in kept)


def codec_graph(decoder: CodecDecoder, dtype: torch.dtype) -> onnx.ModelProto:
    """Export with dynamic batch and frames; every state has a full, static size."""
    dims = decoder.dims
    kept = states(dims)
    codes = torch.zeros(2, 3, dims.codebooks, dtype=torch.int64)
    batch, frames = Dim("batch", min=1, max=256), Dim("frames", min=1, max=4096)
    with quiet(), torch.no_grad():
        program = torch.onnx.export(
            decoder,
            (codes, torch.zeros(1, dtype=dtype), zeros(kept, 2, dtype)),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: batch, 1: frames}, None, tuple({0: batch} for _ in kept)),
            input_names=[CODES, LAST, *(state.name for state in kept)],
            output_names=[WAVE, SAMPLES, *(state.next for state in kept)],
            verbose=False,
        )
    assert program is not None
    return tidy(program.model_proto)


def codec_encoder_graph(encoder: CodecEncoder, frame_samples: int) -> onnx.ModelProto:
    """``audio [B, frames · frame_samples] → codes [B, frames, Q]``."""
    audio = torch.zeros(2, 5 * frame_samples)
    axes = {0: Dim("clips", min=1, max=64), 1: frame_samples * Dim("frames", min=1, max=4096)}
    return trace(encoder, {"audio": audio}, {"audio": axes}, ("codes",))


def speaker_encoder_graph(encoder: SpeakerEncoder, bins: int) -> onnx.ModelProto:
    """``mels [B, T, bins] → embedding [B, width]``."""
    axes = {0: Dim("clips", min=1, max=64), 1: Dim("steps", min=8, max=65536)}
    return trace(encoder, {"mels": torch.zeros(2, 100, bins)}, {"mels": axes}, ("embedding",))
