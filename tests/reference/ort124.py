"""Load and run every graph of a model directory with onnxruntime 1.24.4, the newest DirectML build's version.

Runs in an environment of its own that holds that version and numpy only, so it imports nothing of the repository.
Another version writes its outputs to OUTPUTS.npz; this one then compares its own with them.

usage: ort124.py MODEL_DIRECTORY [OUTPUTS.npz]
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

VERSION = "1.24.4"
FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
TOLERANCE = {"fp32": 1e-4, "fp16": 5e-3, "int8": 2e-2}
"""RMS of the difference over the RMS: kernels of another version sum in another order, and 8-bit steps amplify that."""
LOST_ROWS, LOST = 0.05, 0.03
"""If 8-bit outputs as a whole are further apart, no more than this share of their rows may be the cause, and the whole
may differ by no more than this. A value on the edge between two steps falls to either side, which with random weights
moves a whole row: on a Xeon with AMX 3 of 104 rows of a CTC head, by which the whole differs by .0253."""


def inputs(manifest: dict, kind: type) -> dict[str, dict[str, np.ndarray]]:
    """One batch of every shape class for each graph: two windows, one of them padded."""
    encoder, random = manifest["encoder"], np.random.default_rng(0)
    bins, frames, rows = manifest["mel"]["bins"], encoder["chunk_frames"], encoder["window_rows"]
    if manifest.get("family") == "fun-asr-nano":
        whole = random.standard_normal((2, rows, encoder["stem_width"])).astype(kind)
        return {encoder["body"]: {"rows": whole, "valid_rows": np.array([rows, rows // 3])}}
    mask = np.ones((2, rows), kind)
    mask[1, rows // 3 :] = 0
    feeds = {
        encoder["stem"]: {"mel": random.standard_normal((3, bins, frames)).astype(kind)},
        encoder["body"]: {"rows": random.standard_normal((2, rows, encoder["stem_width"])).astype(kind), "mask": mask},
    }
    if encoder["clip"]:
        mel = random.standard_normal((2, bins, 11 * frames)).astype(kind)
        feeds[encoder["clip"]] = {"mel": mel, "valid_rows": np.array([11 * encoder["chunk_rows"], 40])}
    return feeds


def run(directory: Path) -> dict[str, np.ndarray]:
    """Outputs of every graph, named GRAPH:OUTPUT."""
    manifest = json.loads((directory / "model.json").read_text())
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    outputs: dict[str, np.ndarray] = {}
    kind = np.float16 if manifest["encoder"]["precision"] == "fp16" else np.float32
    for name, feed in inputs(manifest, kind).items():
        session = ort.InferenceSession(str(directory / name), options, providers=["CPUExecutionProvider"])
        for port, values in zip(session.get_outputs(), session.run(None, feed), strict=True):
            assert FLOATS[port.type] is kind, f"{name}: output {port.name} is {port.type}"
            assert np.isfinite(values).all(), f"{name}: output {port.name} is not finite"
            outputs[f"{name}:{port.name}"] = values
    return outputs


def main() -> None:
    """Run; with a second argument compare (version 1.24.4) or write (any other)."""
    directory = Path(sys.argv[1])
    outputs = run(directory)
    precision = json.loads((directory / "model.json").read_text())["encoder"]["precision"]
    if len(sys.argv) > 2:
        file = Path(sys.argv[2])
        if ort.__version__ != VERSION:
            np.savez(file, **outputs)
            return
        for name, theirs in np.load(file).items():
            theirs = theirs.astype(np.float64)
            squares, scale = (outputs[name] - theirs) ** 2, (theirs**2).mean()
            difference, limit = np.sqrt(squares.mean() / scale), TOLERANCE[precision]
            if precision == "int8" and difference > limit:
                rows = np.sqrt(squares.mean(-1) / scale)
                assert (rows > limit).mean() <= LOST_ROWS, f"{name}: {(rows > limit).sum()} rows of another version"
                limit = LOST
            assert difference <= limit, f"{name}: {difference:.2e} from the other version"
            print(f"{directory.name} {precision} {name}: {difference:.1e} of the RMS from the other version")
    assert ort.__version__ == VERSION, f"this is onnxruntime {ort.__version__}"
    print(f"{directory.name}: {len(outputs)} outputs of {precision} graphs with onnxruntime {ort.__version__}")


if __name__ == "__main__":
    main()
