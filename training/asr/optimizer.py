"""Muon on the matrices of the layers, AdamW on everything else, and the running average of the weights.

Gradients live in one flat buffer, so that clipping is one operation.
`step` reads nothing back from the device and can be captured.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.asr.config import Optimisation

_MOMENTUM = 0.95
_UPDATE_SIZE = 0.2  # RMS of Muon's update per unit of rate, like AdamW's


def orthogonalise(matrices: Tensor) -> Tensor:
    """Newton-Schulz iteration of Muon (quintic, bfloat16) on a stack [N, a, b]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.mT if tall else x


class Optimizer:
    """Of all parameters of a model."""

    def __init__(self, model: nn.Module, config: Optimisation, weight_decay: float) -> None:
        self._config, self._decay = config, weight_decay
        self.parameters = list(model.parameters())
        device, sizes = self.parameters[0].device, [p.numel() for p in self.parameters]
        self.gradient = torch.zeros(sum(sizes), device=device)
        self.views = [v.view_as(p) for v, p in zip(self.gradient.split(sizes), self.parameters, strict=True)]
        for p, view in zip(self.parameters, self.views, strict=True):
            p.grad = view
        self._stacks: dict[tuple[int, ...], list[nn.Parameter]] = {}
        rest: list[nn.Parameter] = []
        for name, p in model.named_parameters():
            if p.dim() == 2 and ".layers." in name:
                self._stacks.setdefault(tuple(p.shape), []).append(p)
            else:
                rest.append(p)
        self._momenta = {k: torch.zeros(len(v), *k, device=device) for k, v in self._stacks.items()}
        self.rate = torch.zeros((), device=device)  # 0..1 of the peak rates
        self._adam_rate = torch.zeros((), device=device)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in rest if p.dim() > 1], "weight_decay": weight_decay},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0},
        ]
        cuda = device.type == "cuda"
        self._adam = torch.optim.AdamW(groups, lr=self._adam_rate, betas=(0.9, 0.98), fused=cuda, capturable=cuda)
        self.average = [p.detach().clone() for p in self.parameters]
        self.norm = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self) -> None:
        """Clip, update, average. A gradient that is not finite is dropped."""
        self.norm.copy_(self.gradient.norm())
        scale = (self._config.clip / self.norm.clamp(min=1e-6)).clamp(max=1.0)
        self.gradient.copy_(torch.where(self.norm.isfinite(), self.gradient * scale, 0.0))
        self._adam_rate.copy_(self.rate * self._config.adam_rate)
        self._adam.step()
        rate = self.rate * self._config.muon_rate
        for shape, group in self._stacks.items():
            gradient, momentum = torch.stack([p.grad for p in group if p.grad is not None]), self._momenta[shape]
            momentum.lerp_(gradient, 1 - _MOMENTUM)
            update = orthogonalise(gradient.lerp(momentum, _MOMENTUM)).float()
            update *= -rate * _UPDATE_SIZE * max(shape) ** 0.5
            tensors = list[Tensor](group)
            torch._foreach_mul_(tensors, 1 - rate * self._decay)  # pyright: ignore[reportPrivateUsage]
            torch._foreach_add_(tensors, list(update.unbind(0)))  # pyright: ignore[reportPrivateUsage]
        torch._foreach_lerp_(self.average, list[Tensor](self.parameters), 1 - self._config.average)  # pyright: ignore[reportPrivateUsage]

    def state(self) -> dict[str, Any]:
        """Everything needed to go on within a run."""
        return {"adam": self._adam.state_dict(), "momenta": self._momenta, "average": self.average}

    def load_state(self, state: dict[str, Any]) -> None:
        self._adam.load_state_dict(state["adam"])
        for group in self._adam.param_groups:
            group["lr"] = self._adam_rate
        with torch.no_grad():
            for key, momentum in self._momenta.items():
                momentum.copy_(state["momenta"][key])
            torch._foreach_copy_(self.average, state["average"])  # pyright: ignore[reportPrivateUsage]


def averaged(model: nn.Module, average: Sequence[Tensor]) -> dict[str, Tensor]:
    """The state dict of `model` with the averaged parameters in place of its own."""
    return dict(zip((name for name, _ in model.named_parameters()), average, strict=True))
