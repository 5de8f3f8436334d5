"""The mean of two talkers' weights, one of which was trained on from the other.

Why: a run that has learnt an hour of a recorded voice by heart says its recordings and stumbles over everything else.
Between its weights and those it began from lies a talker that has kept what both can do (Wortsman et al. 2022,
"Robust fine-tuning of zero-shot models").
"""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor


def save_mean(first: Path, second: Path, share: float, out: Path) -> None:
    """`out`: (1 - `share`) of the weights in `first` and `share` of those in `second`, each tensor as `first` has it.

    Raises:
        ValueError: `share` lies outside 0..1, a file is missing or holds no weights, or the two do not hold the same
            tensors in the same shapes.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"mean --share: {share}, must lie in 0..1")
    ours, theirs = _weights("first", first), _weights("second", second)
    for name in sorted(ours.keys() | theirs.keys()):
        shapes = [list(weights[name].shape) if name in weights else "none" for weights in (ours, theirs)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"mean: {name} is {shapes[0]} in first, {shapes[1]} in second, must be the same in both")
    mixed = {name: ours[name].float().lerp(theirs[name].float(), share).to(ours[name].dtype) for name in ours}
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(mixed, out, {"format": "pt"})


def _weights(field: str, path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"mean {field}: {path}: no model.safetensors ({error})") from error
