"""Exporting the modules of a speaking model as ONNX graphs."""

import torch
from torch import Tensor
from torch.export import Dim

from export.trace.codec import CodecDecoder
from export.trace.codec_encoder import CodecEncoder
from export.trace.graphs import OPSET, Traced, quiet, tidy, trace
from export.trace.speaker_encoder import SpeakerEncoder
from export.trace.weights import recipes
from export.tts.state import State, states

CODES, LAST, WAVE, SAMPLES = "audio_codes", "is_last", "final_wav", "valid_samples"


def zeros(kept: list[State], batch: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The state before the first call."""
    return tuple(torch.zeros(batch, *state.shape, dtype=dtype) for state in kept)


def codec_graph(decoder: CodecDecoder, dtype: torch.dtype) -> Traced:
    """The graph of the codec's decoder, with any batch and any number of frames; states have their full size."""
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
    return Traced(tidy(program.model_proto), recipes(decoder))


def codec_encoder_graph(encoder: CodecEncoder, frame_samples: int) -> Traced:
    """The graph of the codec's encoder: ``audio [B, frames · frame_samples] → codes [B, frames, Q]``."""
    audio = torch.zeros(2, 5 * frame_samples)
    axes = {0: Dim("clips", min=1, max=64), 1: frame_samples * Dim("frames", min=1, max=4096)}
    return trace(encoder, {"audio": audio}, {"audio": axes}, ("codes",))


def speaker_encoder_graph(encoder: SpeakerEncoder, bins: int) -> Traced:
    """The graph of the speaker encoder: ``mels [B, T, bins] → embedding [B, width]``."""
    axes = {0: Dim("clips", min=1, max=64), 1: Dim("steps", min=8, max=65536)}
    return trace(encoder, {"mels": torch.zeros(2, 100, bins)}, {"mels": axes}, ("embedding",))
