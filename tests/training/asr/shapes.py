"""A recogniser small enough to train inside a test, and a tokenizer for it."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.asr.checkpoint import save_checkpoint
from training.asr.config import Batches, Config, Optimisation, Regularisation, Shape
from training.asr.model import PocketASR
from training.checkpoint import save_weights
from training.speech.script import Script

SHIPPED = Path(__file__).parents[3] / "models" / "pocket-asr-en"
SENTENCES = [
    "the boy said that the sea was calm", "a letter came to the old house", "he would not speak of it again",
    "there was no answer to her question", "she looked at him and laughed", "we must go before the rain begins",
] * 20  # fmt: skip
STEP = 32 / 3600  # the hours that a step hears
CONFIG = Config(
    name="tiny",
    shape=Shape(
        conv_channels=8, d_model=32, encoder_layers=2, encoder_heads=2, encoder_ffn=48,
        hidden=32, decoder_layers=2, heads=2, kv_heads=1, head_dim=16, decoder_ffn=48,
    ),
    regularisation=Regularisation(),
    batches=Batches(
        seconds_per_step=32, row_seconds=(4, 8), row_share=(0.5, 0.5), planners=1, pool_hours=0.1, dev_every=2,
        dev_readers=2,
    ),
    optimisation=Optimisation(
        warmup_hours=2 * STEP, text_warmup_hours=2 * STEP, save_hours=4 * STEP,
        fall_hours=3 * STEP,
    ),
    sources={"librispeech": 1.0},
)  # fmt: skip


def tiny_tokenizer(folder: Path) -> Tokenizer:
    """Copy the shipped tokenizer into `folder`."""
    folder.mkdir(exist_ok=True)
    return Tokenizer.from_file(shutil.copy(SHIPPED / "tokenizer.json", folder))


def script(path: Path, *more: str) -> Path:
    """Write a script whose lines nobody says."""
    lines = [*SENTENCES, *more]
    rows = [np.zeros(0, np.uint8)] * 2, [np.zeros(len(lines), np.int64)] * 2, [np.zeros(len(lines), np.bool_)] * 2
    Script(lines, *map(tuple, rows)).save(path)
    return path


def start(folder: Path, shape: Shape = CONFIG.shape) -> Path:
    """Write a checkpoint to begin from."""
    tiny_tokenizer(folder)
    torch.manual_seed(1)
    save_checkpoint("tiny", shape, PocketASR(shape).state_dict(), folder, folder)
    return folder


def teacher_weights(width: int = 32, layers: int = 2, ffn: int = 48, bins: int = 80) -> dict[str, torch.Tensor]:
    """Draw the weights of a small Whisper's encoder."""
    random = torch.Generator().manual_seed(7)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random) * 0.1

    weights = {"conv1.weight": drawn(width, bins, 3), "conv2.weight": drawn(width, width, 3)}
    weights |= {"embed_positions.weight": drawn(1500, width), "layer_norm.weight": 1 + drawn(width)}
    weights |= {f"{name}.bias": drawn(width) for name in ("conv1", "conv2", "layer_norm")}
    for i in range(layers):
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            weights[f"layers.{i}.self_attn.{name}.weight"] = drawn(width, width)
            if name != "k_proj":
                weights[f"layers.{i}.self_attn.{name}.bias"] = drawn(width)
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            weights |= {f"layers.{i}.{name}.weight": 1 + drawn(width), f"layers.{i}.{name}.bias": drawn(width)}
        weights |= {f"layers.{i}.fc1.weight": drawn(ffn, width), f"layers.{i}.fc1.bias": drawn(ffn)}
        weights |= {f"layers.{i}.fc2.weight": drawn(width, ffn), f"layers.{i}.fc2.bias": drawn(width)}
    return weights


def teacher(folder: Path) -> Path:
    """Write a folder with that encoder."""
    save_weights(teacher_weights(), folder / "encoder.safetensors")
    return folder


def write_shard(folder: Path, name: str, samples: NDArray[np.int16], text: str, voice: str = "kokoro") -> None:
    """Write one utterance as a synthetic shard."""
    samples.tofile(folder / f"{name}.pcm")
    (folder / f"{name}.json").write_text(json.dumps([(0, len(samples), text, voice, [])]))


def shard(path: Path, count: int) -> Path:
    """Write a tar of noisy tones that pretend to be sentences."""
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w") as tar:
        rows: list[str] = []

        def add(name: str, data: bytes) -> None:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))

        for i in range(count):
            seconds = float(rng.uniform(1, 3))
            at = np.arange(int(16000 * seconds)) / 16000
            file = io.BytesIO()
            soundfile.write(file, 0.1 * np.sin(at * 2000 * (i + 1)), 16000, format="OGG", subtype="OPUS")
            add(f"{i}.opus", file.getvalue())
            row = {"file": f"{i}.opus", "text": SENTENCES[i].capitalize(), "speaker": f"s{i}", "seconds": seconds}
            rows.append(json.dumps(row | {"corpus": "LibriSpeech dev", "licence": "CC-BY-4.0", "lang": "en"}))
        add("index.jsonl", "\n".join(rows).encode())
    return path
