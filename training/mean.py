"""The mean of several models' weights, each of which was trained on from the same ones.

Why: what a run learns beyond its beginning it partly learns by heart. Between its weights and those it began from lies
a model that has kept what both can do (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from collections.abc import Mapping, Sequence

from torch import Tensor


def weighted_mean(parts: Sequence[tuple[str, float, Mapping[str, Tensor]]]) -> dict[str, Tensor]:
    """Sum of `share` × weights over `parts` (name, share, weights), each tensor in the first one's dtype.

    Raises:
        ValueError: there is no part, a share is negative, they do not add up to 1, or a part does not hold the first
            one's tensors in the same shapes.
    """
    if not parts:
        raise ValueError("mean: of nothing, at least one model's weights are needed")
    for name, share, _ in parts:
        if share < 0:
            raise ValueError(f"mean {name}: share {share}, must not be negative")
    whole = sum(share for _, share, _ in parts)
    if abs(whole - 1) > 1e-6:
        raise ValueError(f"mean: shares add up to {whole:g}, must be 1")
    first, _, ours = parts[0]
    for name, _, theirs in parts[1:]:
        for key in sorted(ours.keys() | theirs.keys()):
            shapes = [list(weights[key].shape) if key in weights else "none" for weights in (ours, theirs)]
            if shapes[0] != shapes[1]:
                raise ValueError(f"mean: {key} is {shapes[0]} in {first}, {shapes[1]} in {name}, must be the same")
    out: dict[str, Tensor] = {}
    for key, value in ours.items():
        mixed = value.float() * parts[0][1]
        for _, share, weights in parts[1:]:
            mixed += weights[key].float() * share
        out[key] = mixed.to(value.dtype)
    return out
