"""Loss curves and scores of a run as one picture."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_NAMES = ("cross-entropy", "accuracy", "view divergence", "CTC", "inner CTC", "gradient norm", "lines")


def draw_curves(
    history: Sequence[Sequence[float]],
    scores: Sequence[dict[str, Any]],
    path: Path,
    names: Sequence[str] = _NAMES,
) -> None:
    """history rows: step, seconds, then one value per name; scores rows hold "step" and "wer" by set. Writes a PNG."""
    figure, axes = plt.subplots(1, 3, figsize=(16, 4.5))
    steps = [row[0] for row in history]
    for i, name in enumerate(names):
        axis = axes[1 if name in ("accuracy", "gradient norm") else 0]
        # A run that goes on from an older one has rows of fewer values.
        axis.plot(steps, [row[2 + i] if len(row) > 2 + i else math.nan for row in history], label=name)
    for source in sorted({s for row in scores for s in row["wer"]}):
        axes[2].plot(
            [r["step"] for r in scores if source in r["wer"]],
            [r["wer"][source] for r in scores if source in r["wer"]],
            "o-",
            label=source,
        )
    for axis, title in zip(axes, ("loss", "accuracy and gradient norm", "WER % on the test sets"), strict=True):
        axis.set_title(title)
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
        if axis.has_data():
            axis.legend(fontsize=8)
    axes[2].set_ylim(0, 100)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
