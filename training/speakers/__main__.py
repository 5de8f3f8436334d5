"""`python -m training.speakers graph …` makes the speaker encoder (needs torch, and onnx for the graph)."""

from pathlib import Path

import numpy as np
import torch

from training.shards import read_shards
from training.speakers.crops import crops, rough
from training.speakers.encoder import read, write
from training.stages import asked

# So many crops tell the ranges of the graph's bytes.
_RANGED = 100


def graph(weights: Path, shards: tuple[Path, ...], /, *, out: Path, seed: int = 9) -> None:
    """Write the graph that ships; crops of `shards` tell the ranges of its bytes. out:
    models/pocket-speakers/encoder.onnx."""
    found = crops(read_shards(shards), seed)
    some = found[np.random.default_rng(seed).permutation(len(found))[:_RANGED]]
    some[::2] = rough(torch.from_numpy(some[::2]), torch.Generator().manual_seed(7)).numpy()
    write(read(weights), list(some), out)
    print(f"{out.stat().st_size} bytes")


STAGES = {"graph": graph}

if __name__ == "__main__":
    asked("training.speakers", __doc__, STAGES)()
