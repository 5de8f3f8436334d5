"""A recogniser small enough to train inside a test, and a tokenizer for it."""

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.asr.config import Batches, Config, Optimisation, Regularisation, Shape

SHIPPED = Path(__file__).parents[3] / "models" / "pocket-asr-en"
SENTENCES = [
    "the boy said that the sea was calm", "a letter came to the old house", "he would not speak of it again",
    "there was no answer to her question", "she looked at him and laughed", "we must go before the rain begins",
] * 20  # fmt: skip
CONFIG = Config(
    name="tiny",
    shape=Shape(
        conv_channels=8, d_model=32, encoder_layers=2, encoder_heads=2, encoder_ffn=48,
        hidden=32, decoder_layers=2, heads=2, kv_heads=1, head_dim=16, decoder_ffn=48,
    ),
    regularisation=Regularisation(middle_layer=1),
    batches=Batches(
        seconds_per_step=32, row_seconds=(4, 8), row_share=(0.5, 0.5), planners=1, pool_hours=0.1, dev_every=2,
    ),
    optimisation=Optimisation(warmup_steps=2),
    sources={"librispeech": 1.0},
)  # fmt: skip


def tiny_tokenizer(folder: Path) -> Tokenizer:
    """The shipped one, in `folder`."""
    folder.mkdir(exist_ok=True)
    return Tokenizer.from_file(shutil.copy(SHIPPED / "tokenizer.json", folder))


def write_shard(folder: Path, name: str, samples: NDArray[np.int16], text: str, voice: str = "kokoro") -> None:
    """One utterance as a synthetic shard."""
    samples.tofile(folder / f"{name}.pcm")
    (folder / f"{name}.json").write_text(json.dumps([(0, len(samples), text, voice, [])]))


def shard(path: Path, count: int) -> Path:
    """A tar of noisy tones that pretend to be sentences."""
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
