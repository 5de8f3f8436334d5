"""How natural speech sounds to networks that were trained on people's opinions: distillmos, and DNSMOS beside it.

Both give 1…5 of single recordings at 16 kHz, without a reference; neither is ours.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.ear import Progress
from bench.row import NotMeasured, Row

Floats = npt.NDArray[np.float32]

GOAL: Final = 3.8
"""The goal for naturalness by distillmos, of 1…5."""
RATE: Final = 16_000
SHORTEST: Final = RATE // 2
"""Samples. Shorter recordings say nothing of naturalness."""


def opinions(waves: Sequence[Floats], progress: Progress) -> tuple[float, float]:
    """Means of distillmos and of DNSMOS (overall) of recordings float32 [n] at 16 kHz; those under half a second are
    left out.

    Raises:
        NotMeasured: a package is missing or cannot be loaded.
    """
    for package in ("distillmos", "speechmos"):
        if importlib.util.find_spec(package) is None:
            raise NotMeasured(f"needs {package}: pip install -e '.[natural]'")
    try:
        torch, distillmos, dnsmos = (importlib.import_module(n) for n in ("torch", "distillmos", "speechmos.dnsmos"))
    except (ImportError, OSError) as error:  # For example, torchaudio was built for another torch.
        raise NotMeasured(f"distillmos and speechmos cannot be loaded: {error}") from error
    with redirect_stdout(sys.stderr):  # It prints where its weights are.
        model: Any = distillmos.ConvTransformerSQAModel().eval()
    found = list[tuple[float, float]]()
    kept = [one for one in waves if len(one) >= SHORTEST]
    with torch.inference_mode():
        for i, one in enumerate(kept):
            other = dnsmos.run(np.clip(one, -1, 1), sr=RATE)["ovrl_mos"]
            found.append((float(model(torch.from_numpy(one)[None])), float(other)))
            progress((i + 1) / len(kept))
    natural, overall = np.mean(found, 0)
    return float(natural), float(overall)


def natural_row(
    spoken: Sequence[Floats], recorded: Sequence[Floats], other: Sequence[Floats], voice: str, progress: Progress
) -> Row:
    """Naturalness of what the model says, beside that of recordings of a person and of what another model says."""
    said, overall = opinions(spoken, progress)
    note = f"distillmos; DNSMOS {overall:.2f}"
    for what, waves in (("recordings of a person", recorded), ("sentences by the other", other)):
        if waves:
            note += "; {} {} {:.2f}, {:.2f}".format(len(waves), what, *opinions(waves, progress))
    name = f"naturalness of {len(spoken)} sentences by {voice}"
    return Row(name, f"{said:.2f}", f"≥ {GOAL}", said >= GOAL, (note,), {"natural": said, "dnsmos": overall})
