"""`python -m training.speakers STAGE …` makes the speaker encoder (needs torch; a quarter of an hour of one core)."""

from pathlib import Path

import numpy as np
import torch

from training.shards import read_shards
from training.speakers.encoder import Front, Head, write
from training.speakers.learn import Rows, crops, equal_error_rate, learn, prints
from training.stages import asked

SHIPPED = Path("models/pocket-asr-en")
FLOOR = -6.5


def _front(model: Path) -> Front:
    return Front(np.load(model / "mel.npy"), FLOOR)


def rows(shards: tuple[Path, ...], /, *, out: Path, model: Path = SHIPPED) -> None:
    """Hear crops of every reader with the stem of `model`, and write the rows. out: folder."""
    out.mkdir(parents=True, exist_ok=True)
    clips = read_shards(shards)
    with torch.inference_mode():
        for name, kept in (("train", False), ("dev", True)):
            found = crops(clips, _front(model), model / "stem.onnx", kept=kept)
            np.savez(out / f"{name}.npz", rows=found.rows, owners=found.owners, corpora=found.corpora)
            print(f"{name}: {len(found.rows)} crops of {len(set(found.owners))} readers")


def _read(path: Path) -> Rows:
    with np.load(path) as file:
        return Rows(file["rows"], file["owners"].tolist(), file["corpora"].tolist())


def head(folder: Path, /, *, out: Path, epochs: int = 12, seed: int = 3) -> None:
    """Learn from the rows in `folder`, tell the equal error rate on readers that were kept, and write the weights."""
    learned = learn(_read(folder / "train.npz"), epochs, seed)
    dev = _read(folder / "dev.npz")
    rate = equal_error_rate(prints(learned, dev.rows), dev.owners, dev.corpora)
    print(f"equal error rate on {len(set(dev.owners))} kept readers: {rate:.2%}")
    torch.save(learned.state_dict(), out)


def graph(weights: Path, /, *, out: Path, model: Path = SHIPPED) -> None:
    """Write the graph that ships. out: models/pocket-speakers/encoder.onnx."""
    learned = Head()
    learned.load_state_dict(torch.load(weights))
    write(learned, _front(model), model / "stem.onnx", out)
    print(f"{out.stat().st_size} bytes")


STAGES = {"rows": rows, "head": head, "graph": graph}

if __name__ == "__main__":
    asked("training.speakers", __doc__, STAGES)()
