"""The mean of two talkers: between them, tensor by tensor, and of nothing else."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.training.tts.shapes import CONFIG
from training.tts.checkpoint import load_talker, save_talker
from training.tts.mean import save_mean
from training.tts.talker import Talker


def talkers(folder: Path) -> tuple[Path, Path]:
    paths = folder / "first.safetensors", folder / "second.safetensors"
    for seed, path in enumerate(paths):
        torch.manual_seed(seed)
        save_talker(Talker(CONFIG.talker, CONFIG.codec, 0.0), path)
    return paths


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_every_tensor_lies_between(share: float, tmp_path: Path) -> None:
    first, second = talkers(tmp_path)
    out = tmp_path / "deep" / "mean.safetensors"
    save_mean(first, second, share, out)
    ours, theirs, found = load_file(first), load_file(second), load_file(out)
    assert found.keys() == ours.keys()
    for name, value in found.items():
        wanted = (1 - share) * ours[name].float() + share * theirs[name].float()
        assert value.dtype == ours[name].dtype
        torch.testing.assert_close(value.float(), wanted, rtol=1e-3, atol=1e-4)
    load_talker(out, CONFIG)


def test_talkers_of_other_shapes_have_none(tmp_path: Path) -> None:
    first, second = talkers(tmp_path)
    weights = load_file(second)
    name = sorted(weights)[0]
    save_file(weights | {name: torch.zeros(1)}, second)
    with pytest.raises(ValueError, match=name):
        save_mean(first, second, 0.5, tmp_path / "out")
    save_file({n: w for n, w in weights.items() if n != name}, second)
    with pytest.raises(ValueError, match=name):
        save_mean(first, second, 0.5, tmp_path / "out")


def test_what_holds_no_weights_is_named(tmp_path: Path) -> None:
    first, _ = talkers(tmp_path)
    with pytest.raises(ValueError, match=r"mean second: .*nowhere"):
        save_mean(first, tmp_path / "nowhere", 0.5, tmp_path / "out")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"mean first: .*broken"):
        save_mean(broken, first, 0.5, tmp_path / "out")


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_lies_between_none_and_all(share: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="share"):
        save_mean(*talkers(tmp_path), share, tmp_path / "out")
