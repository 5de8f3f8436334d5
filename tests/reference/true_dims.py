"""Export parity at Qwen3-ASR-0.6B's true dimensions: `make export-check`. Some minutes, 12 GB of memory, 12 GB of disk.

Random weights of the official classes, scaled so that every stage matters; every encoder precision and decoder
format; each graph also under onnxruntime 1.24.4 when its Python is named.

usage: python -m tests.reference.true_dims [--ort124 PYTHON] [--keep DIR] [--exports fp32+f32 …] [--noise]
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import torch

from export import api
from export.checkpoint import Checkpoint, open_checkpoint
from export.dims import Dims, read_dims
from export.verify import parity
from export.verify.reference import Generated, Reference
from tests.reference import noise
from tests.reference.official import FULL, write_checkpoint

EXPORTS = (("fp32", "f32"), ("fp16", "f16"), ("int8", "q8_0"), ("int8", "q6_k"), ("int8", "q4_k_m"))
ROUNDED_SECONDS = (0.3, 8.01, 30.0)
"""Rounded exports are measured on fewer clips: nothing about windows differs between them."""


class Remembering(Reference):
    """The official code, asked for the text of each clip once: five exports are held to the same."""

    def __init__(self, checkpoint: Checkpoint, dims: Dims) -> None:
        super().__init__(checkpoint, dims)
        self.texts: dict[tuple[int, ...], Generated] = {}

    def generate(self, ids: list[int], features: torch.Tensor, mask: torch.Tensor, count: int) -> Generated:
        """As the official code's, remembered by the audio's length: a length stands for one clip here."""
        key = (*features.shape, int(mask.sum()), len(ids), count)
        if key not in self.texts:
            self.texts[key] = super().generate(ids, features, mask, count)
        return self.texts[key]


def main() -> int:
    """Run everything; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ort124", type=Path, help="Python of an environment with onnxruntime 1.24.4")
    parser.add_argument("--keep", type=Path, help="work here and leave everything")
    names = [f"{encoder}+{decoder}" for encoder, decoder in EXPORTS]
    parser.add_argument(
        "--exports", nargs="+", choices=names, default=names, metavar="ENCODER+DECODER", help="only these"
    )
    parser.add_argument("--noise", action="store_true", help="also tests.reference.noise, after fp32+f32")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    passed = True
    with nullcontext(arguments.keep) if arguments.keep else tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        checkpoint = root / "checkpoint"
        if not checkpoint.exists():
            write_checkpoint(checkpoint, FULL, layout="original", seed=1, sharpness=1.22, spread=0.43)
        print(api.inspect(checkpoint))
        opened = open_checkpoint(checkpoint)
        reference = Remembering(opened, read_dims(opened))
        for encoder, decoder in (name.split("+") for name in arguments.exports):
            started = time.monotonic()
            model = api.run(
                checkpoint, root / "model", encoder=encoder, decoder=decoder, clip=encoder == "fp32", name="true-dims"
            )
            size = sum(path.stat().st_size for path in model.iterdir()) / 1e6
            print(f"\n{encoder} + {decoder}: exported in {time.monotonic() - started:.0f} s, {size:.0f} MB", flush=True)
            started = time.monotonic()
            seconds = parity.SECONDS if encoder == "fp32" else ROUNDED_SECONDS
            table = parity.verify(model, checkpoint, seconds=seconds, reference=reference)
            print(table)
            print(f"verified in {time.monotonic() - started:.0f} s", flush=True)
            passed &= table.passed
            # The random text must be a text, or equal tokens would say little.
            distinct = [row.value for row in table.rows if row.measure == "distinct tokens"]
            passed &= min(distinct) >= parity.DISTINCT
            if arguments.ort124:
                script = Path(__file__).with_name("ort124.py")
                passed &= subprocess.run([arguments.ort124, script, model], check=False).returncode == 0
            if arguments.noise and (encoder, decoder) == EXPORTS[0]:
                passed &= noise.main([str(checkpoint), str(model)]) == 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{'every limit is kept' if passed else 'LIMITS ARE BROKEN'}; peak memory {peak:.1f} GiB")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
