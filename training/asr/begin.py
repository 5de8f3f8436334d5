"""Where a run begins: an encoder whose layers are Whisper base's, beside the convolutions and the decoder that ship.

The layers are Whisper's only in what they read. So the rows of the convolutions are made like the teacher's (`fitted`),
four of which are one of ours, and the positions are the teacher's in the middle of the four.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from training.asr.checkpoint import save_checkpoint
from training.asr.config import Shape
from training.asr.encoder import AudioTower, sinusoids
from training.asr.model import PocketASR
from training.asr.shipped import shipped_shape, shipped_weights
from training.asr.spectrogram import LogMel, heard
from training.asr.teacher import STRIDE, WhisperEncoder, frames, load_encoder, with_key_bias
from training.checkpoint import load_weights
from training.shards import RATE, Clip

_TOWER = "thinker.audio_tower."
_SAYS = re.compile(r"thinker\.audio_tower\.layers\.(\d+)\.(?:self_attn\.out_proj|fc2)\.")
"""The projections whose output a layer of the encoder adds to its input."""
_OURS = "encoder_layers", "d_model", "encoder_heads", "encoder_ffn", "chunk_frames", "window_frames", "placed"
# The middle of those of the teacher's rows that are one of ours.
_MIDDLE = 1.5
_FRAMES = 8  # Mel frames of a row.
# Features that are nearly the same are kept apart by so much of their mean power.
_RIDGE = 1e-3


def save_beginning(
    model: Path, teacher: Path, out: Path, free: int = 2, seed: int = 5, clips: Sequence[Clip] = ()
) -> None:
    """Write a checkpoint to begin from. The first layers of the encoder are Whisper base's, the convolutions and the
    decoder are those of a shipped model directory, and what stands between them is drawn anew, but for what is fitted.

    teacher: folder that `whisper` wrote; free: layers above Whisper's, which follow no teacher. What they add to their
    input is nothing at first, so that the encoder begins as Whisper's. clips: speech to which `conv_out` is fitted.
    """
    shape, layers = shipped_shape(model), Shape().encoder_layers
    new = replace(shape, **{name: getattr(Shape(), name) for name in _OURS} | {"encoder_layers": layers + free})
    torch.manual_seed(seed)
    whole = PocketASR(new)
    weights = whole.state_dict()
    for name in weights:
        if (found := _SAYS.match(name)) and int(found[1]) >= layers:
            weights[name].zero_()
    weights[f"{_TOWER}positions"] = sinusoids(torch.arange(new.window_rows) * STRIDE + _MIDDLE, new.d_model)
    old = shipped_weights(model, shape)
    weights |= {name: value for name, value in old.items() if name.startswith((f"{_TOWER}conv2d", "thinker.model."))}
    for name, value in with_key_bias(load_weights(teacher / "encoder.safetensors")).items():
        theirs = f"{_TOWER}{name.replace('layer_norm.', 'ln_post.') if name.startswith('layer_norm.') else name}"
        if name.startswith(("layers.", "layer_norm.")):
            assert weights[theirs].shape == value.shape, theirs
            weights[theirs] = value
    if clips:
        whole.load_state_dict(weights)
        mel, encoder = LogMel(new.mel_bins), load_encoder(teacher, torch.device("cpu"))
        weights[f"{_TOWER}conv_out.weight"] = fitted(whole.thinker.audio_tower, mel, encoder, clips)
    save_checkpoint("pocket-asr-en", new, weights, model, out)


@torch.no_grad()
def fitted(tower: AudioTower, mel: LogMel, teacher: WhisperEncoder, clips: Sequence[Clip]) -> Tensor:
    """Give the `conv_out` by which the tower's convolutions come nearest to the means of the teacher's rows behind its
    own, on clips: least squares. (Fitted to clips as a run hears them the rows come nearer on such, .0095 instead of
    .019, but the layers further from their states, .33 instead of .31.)"""
    size = tower.conv_out.in_features
    square, product = (
        torch.zeros(size, size, dtype=torch.double),
        torch.zeros(size, tower.conv_out.out_features).double(),
    )
    theirs = frames(teacher.bins, torch.device("cpu"))
    waves = [torch.from_numpy(clip.samples) for clip in clips if len(clip.samples) <= 30 * RATE]
    for group, _, count, spectra in heard(waves, mel, tower.chunk):
        features = tower.convolved(spectra).reshape(len(group), -1, size)
        for i, own, found in zip(group, (count // _FRAMES).tolist(), features, strict=True):
            # A little more than the clip is enough, because the convolutions do not look further.
            rows = teacher.rows(theirs([waves[i]])[..., : (own + 1) * _FRAMES])[0].unflatten(0, (-1, STRIDE)).mean(1)
            x = found[:own].double()
            square += x.T @ x
            product += x.T @ rows[:own].double()
    ridge = _RIDGE * square.diagonal().mean() * torch.eye(size).double()
    return torch.linalg.solve(square + ridge, product).T.float()
