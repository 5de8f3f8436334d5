"""Load and run a model directory's codec decoder with onnxruntime 1.24.4, the newest DirectML build's version.

Runs in an environment of its own that holds that version and numpy only; so this file imports nothing of the
repository.
Compared with what the exporting environment's version gave, left in OUTPUTS.npz (codes, wave).

usage: ort124.py MODEL_DIRECTORY OUTPUTS.npz
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

VERSION = "1.24.4"
TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2, "int8": 2e-2}
"""Largest difference over the RMS between two versions: kernels of another version sum in another order."""
CUTS = ((1, 0), (4, 2), (12, 0))
"""Frames and padding of the calls, over and over."""


def main() -> None:
    """Decode the codes chunk by chunk, twice in one batch, and compare."""
    directory, given = Path(sys.argv[1]), np.load(sys.argv[2])
    codec = json.loads((directory / "model.json").read_text())["codec"]
    kind = np.float16 if codec["precision"] == "fp16" else np.float32
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(directory / codec["file"], options, providers=["CPUExecutionProvider"])
    outputs = [codec["wave"], codec["samples"], *(state["output"] for state in codec["states"])]
    state = [np.zeros((2, *each["shape"]), kind) for each in codec["states"]]
    codes, waves, place, turn = given["codes"], [], 0, 0
    while place < len(codes):
        frames, padding = CUTS[turn % len(CUTS)]
        chunk = codes[place : place + frames]
        chunk = np.concatenate((chunk, np.full((padding, codes.shape[1]), -1)))[None].repeat(2, 0)
        feed = {each["input"]: value for each, value in zip(codec["states"], state, strict=True)}
        feed |= dict.fromkeys(codec["slots"] or (), np.arange(2))
        wave, valid, *state = session.run(outputs, {codec["codes"]: chunk, codec["last"]: np.zeros(1, kind), **feed})
        assert [each.shape[1:] for each in state] == [tuple(each["shape"]) for each in codec["states"]]
        waves.append(wave[:, : valid[0]])
        place, turn = place + frames, turn + 1
    theirs = given["wave"].astype(np.float64)
    ours = np.concatenate(waves, 1).astype(np.float64)
    assert np.isfinite(ours).all()
    error = np.abs(ours - theirs).max() / np.sqrt((theirs**2).mean())
    print(
        f"{codec['precision']} codec with onnxruntime {ort.__version__}: {error:.1e} of the RMS from the other version"
    )
    assert ort.__version__ == VERSION, f"this is onnxruntime {ort.__version__}"
    assert error <= TOLERANCE[codec["precision"]]


if __name__ == "__main__":
    main()
