"""The mean of several runs' weights: a checkpoint folder like any other."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from training.asr.checkpoint import load_weights, save_mean, save_weights
from training.mean import weighted_mean


def folders(root: Path, count: int) -> list[Path]:
    out = [root / str(i) for i in range(count)]
    for seed, folder in enumerate(out):
        generator = torch.Generator().manual_seed(seed)
        weights = {name: torch.randn(3, 5, generator=generator) for name in ("encoder.weight", "decoder.weight")}
        save_weights(weights, folder, parts=seed == 1)
    return out


def test_every_tensor_is_the_sum_of_the_shares(tmp_path: Path) -> None:
    """Of three folders, one of them in parts."""
    a, b, c = folders(tmp_path, 3)
    save_mean([(0.5, a), (0.3, b), (0.2, c)], tmp_path / "mean")
    found = load_weights(tmp_path / "mean")
    each = [load_weights(folder) for folder in (a, b, c)]
    assert found.keys() == each[0].keys()
    for name, value in found.items():
        wanted = 0.5 * each[0][name] + 0.3 * each[1][name] + 0.2 * each[2][name]
        torch.testing.assert_close(value, wanted, rtol=1e-3, atol=1e-3)


def test_one_alone_is_itself(tmp_path: Path) -> None:
    (a,) = folders(tmp_path, 1)
    save_mean([(1.0, a)], tmp_path / "mean")
    for name, value in load_weights(tmp_path / "mean").items():
        assert torch.equal(value, load_weights(a)[name])


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ([], "of nothing"),
        ([("a", 0.5, {}), ("b", 0.4, {})], r"add up to 0\.9"),
        ([("a", 1.5, {}), ("b", -0.5, {})], "mean b: share -0.5"),
        ([("a", 0.5, {"w": torch.zeros(2)}), ("b", 0.5, {"w": torch.zeros(3)})], r"w is \[2\] in a, \[3\] in b"),
        ([("a", 0.5, {"w": torch.zeros(2)}), ("b", 0.5, {})], r"w is \[2\] in a, none in b"),
    ],
)
def test_what_has_no_mean_is_named(parts: list[tuple[str, float, dict[str, Tensor]]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        weighted_mean(parts)


def test_a_folder_without_weights_is_named(tmp_path: Path) -> None:
    (a,) = folders(tmp_path, 1)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        save_mean([(0.5, a), (0.5, tmp_path / "nowhere")], tmp_path / "mean")
