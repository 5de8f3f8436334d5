"""Hearing models of Qwen3-ASR's true dimensions with random weights, for `python -m bench.official`.

Weights are drawn by the official classes and go through the exporter. They are bfloat16, as
released, so antirez/qwen-asr reads them too. Some minutes; of 0.6B 8 GB of memory, 1.6 GB of disk and 0.6 to 0.9 GB a
model, of 1.7B more than twice that.

usage: bash tests/reference/run.sh --true-models DIR [--size 0.6b] [--decoder q8_0 …] [--encoder int8]
"""

import argparse
import shutil
from pathlib import Path

import torch

from export import api
from tests.reference.official import FULL, LARGER, write_checkpoint

SIZES = {"0.6b": FULL, "1.7b": LARGER}


def main() -> None:
    """Write the model directories."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="gets `checkpoint` and a model directory for each format")
    parser.add_argument("--size", choices=SIZES, default="0.6b", help="of the released model")
    parser.add_argument("--decoder", nargs="+", default=["q8_0", "q4_k_m"], help="formats of the decoder")
    parser.add_argument("--encoder", default="int8", help="precision of the encoder: fp32, fp16, int8")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    checkpoint = arguments.directory / "checkpoint"
    if not checkpoint.exists():
        begun = checkpoint.with_suffix(".part")  # a run that was broken off leaves this, and the next begins again
        shutil.rmtree(begun, ignore_errors=True)
        shape = SIZES[arguments.size]
        write_checkpoint(begun, shape, layout="original", seed=1, sharpness=1.22, spread=0.43, dtype=torch.bfloat16)
        begun.rename(checkpoint)
    for decoder in arguments.decoder:
        out = arguments.directory / decoder
        print(api.run(checkpoint, out, encoder=arguments.encoder, decoder=decoder, clip=False, name=None))


if __name__ == "__main__":
    main()
