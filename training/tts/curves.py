"""Loss curves of a run as one picture, one panel a measure."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def draw_curves(history: Sequence[Sequence[float]], names: Sequence[str], path: Path) -> None:
    """history rows: step, seconds, then one value a name (zero: not measured in that phase). Writes a PNG."""
    columns = 4
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4 * columns, 2.8 * rows), squeeze=False)
    for i, name in enumerate(names):
        axis = axes[i // columns][i % columns]
        points = [(row[0], row[2 + i]) for row in history if row[2 + i]]
        axis.plot([x for x, _ in points], [y for _, y in points])
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("step", fontsize=8)
        axis.grid(alpha=0.3)
    for i in range(len(names), rows * columns):
        axes[i // columns][i % columns].axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=70)
    plt.close(figure)
