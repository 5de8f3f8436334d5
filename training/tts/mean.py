"""The mean of two talkers' weights, one of which was trained on from the other.

Why: a run that has learnt an hour of a recorded voice by heart says its recordings and stumbles over everything else.
Between its weights and those it began from lies a talker that has kept what both can do (Wortsman et al. 2022,
"Robust fine-tuning of zero-shot models").
"""

from pathlib import Path

from safetensors.torch import load_file, save_file


def save_mean(first: Path, second: Path, share: float, out: Path) -> None:
    """`out`: (1 - `share`) of the weights in `first` and `share` of those in `second`, each tensor as `first` has it.

    Raises:
        ValueError: `share` lies outside 0..1, or the files do not hold the same tensors in the same shapes.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"mean --share: {share}, must lie in 0..1")
    ours, theirs = load_file(first), load_file(second)
    apart = sorted(
        name for name in ours.keys() | theirs.keys()
        if name not in ours or name not in theirs or ours[name].shape != theirs[name].shape
    )  # fmt: skip
    if apart:
        raise ValueError(f"mean: {first} and {second} differ in {len(apart)} tensors, {apart[0]} is the first")
    mixed = {name: ours[name].float().lerp(theirs[name].float(), share).to(ours[name].dtype) for name in ours}
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(mixed, out, {"format": "pt"})
