"""Fun-ASR-Nano-2512's encoder and adaptor at true dimensions (234 M weights, random): parity, and what a look costs.

The decoder is one layer of the published width: it is Qwen3-0.6B, which tests/reference/true_dims.py measures.

usage: python -m tests.reference.funasr.true_dims [--threads 2]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from engines import manifest as manifests
from engines.onnx import Graph
from export import api
from export.sound import sound
from export.verify.parity import error
from tests.reference.funasr.official import PUBLISHED, Official, write_checkpoint
from tests.reference.funasr.test_encoder import COSINE, encoded

SECONDS = (2.0, 5.0, 12.0, 24.0)
LIMIT = 1e-4
"""Largest error over the RMS: 70 blocks deep, the last bits of the official sums count too."""


def main() -> None:
    """Print parity and times; exit 1 where a limit breaks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    torch.set_num_threads(threads)
    shape = {**PUBLISHED, "llm": {**PUBLISHED["llm"], "num_hidden_layers": 1, "vocab_size": 1024}}
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = write_checkpoint(Path(folder) / "checkpoint", shape)
        official = Official(checkpoint)
        for precision in ("fp32", "int8"):
            model = Path(folder) / precision
            api.run(checkpoint, model, encoder=precision, decoder="f16", clip=False, name=None)
            graph = Graph(model / manifests.read_asr(model).encoder.body, threads=threads, provider="cpu")
            for seconds in SECONDS:
                rows = official.features(sound(seconds, 1))
                theirs, _ = official.encode(rows)
                ours = encoded(graph, rows[0].numpy())[0]
                worst, cosine = error(ours, theirs)
                times: list[float] = []
                for _ in range(3):
                    began = time.perf_counter()
                    encoded(graph, rows[0].numpy())
                    times.append(time.perf_counter() - began)
                kept &= precision != "fp32" or (worst <= LIMIT and cosine >= COSINE)
                print(
                    f"{precision} {seconds:>4g} s: largest error / RMS {worst:.1e}, least cosine {cosine:.8f}, "
                    f"{1000 * min(times):.0f} ms ({threads} threads)",
                    flush=True,
                )
                if precision == "fp32" and seconds == 5.0:
                    held = [encoded(graph, rows[0].numpy(), round(each / 0.06))[0] for each in (30.0, 60.0)]
                    print(
                        f"fp32    5 s in 30 and 60 s: {max(np.abs(each - ours).max() for each in held):.1e}", flush=True
                    )
    sys.exit(not kept)


if __name__ == "__main__":
    main()
