"""The mean of two talkers' weights, one of which was trained on from the other (training/mean.py says why).

A run that has learnt an hour of a recorded voice by heart says its recordings and stumbles over everything else.
"""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.mean import weighted_mean


def save_mean(first: Path, second: Path, share: float, out: Path) -> None:
    """`out`: (1 - `share`) of the weights in `first` and `share` of those in `second`, each tensor as `first` has it.

    Raises:
        ValueError: `share` lies outside 0..1, a file is missing or holds no weights, or the two do not hold the same
            tensors in the same shapes.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"mean --share: {share}, must lie in 0..1")
    mixed = weighted_mean(
        [("first", 1 - share, _weights("first", first)), ("second", share, _weights("second", second))]
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(mixed, out, {"format": "pt"})


def _weights(field: str, path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"mean {field}: {path}: no model.safetensors ({error})") from error
