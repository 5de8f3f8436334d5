"""The moving average of weights: what it holds, and when the weights are theirs again."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from training.tts.average import Average


def test_the_mean_follows_the_steps_and_then_holds() -> None:
    """Few steps: nearly the last one; many: at most the share of the mean is kept."""
    weight = nn.Parameter(torch.zeros(2))
    average = Average([weight], 0.5)
    expected = torch.zeros(2)
    for done in range(40):
        with torch.no_grad():
            weight.copy_(torch.tensor([done + 1.0, -done]))
            average.add(done)
        kept = min(0.5, (1 + done) / (10 + done))
        expected = kept * expected + (1 - kept) * weight.detach()
    with torch.no_grad(), average.worn():
        assert torch.allclose(weight, expected)
        assert weight[0] < 40
    assert weight.tolist() == [40.0, -39.0]


@torch.no_grad()
def test_weights_come_back_after_an_error_and_stay_once_settled() -> None:
    weight = nn.Parameter(torch.zeros(1))
    average = Average([weight], 0.9)
    weight.fill_(1.0)
    average.add(0)
    with pytest.raises(RuntimeError, match="full disk"), average.worn():
        raise RuntimeError("full disk")
    assert weight.item() == 1.0
    average.settle()
    assert weight.item() == pytest.approx(0.9)
    average.add(10**6)  # a mean of what is its mean already
    assert weight.item() == pytest.approx(0.9)


@torch.no_grad()
def test_of_no_weights_nothing_happens() -> None:
    average = Average()
    average.add(0)
    with average.worn():
        pass
    average.settle()
