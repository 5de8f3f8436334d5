"""Muon on the matrices of the layers, AdamW on everything else, and the running average of the weights.

`step` reads nothing back from the device and can be captured.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.asr.config import Optimisation
from training.learner import Learner

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


class Optimizer(Learner):
    """Of all parameters of a model. Its rate is 0 to 1, of the peak rates."""

    def __init__(self, model: nn.Module, config: Optimisation, weight_decay: float) -> None:
        self._config, self._decay = config, weight_decay
        self._stacks: dict[tuple[int, ...], list[nn.Parameter]] = {}
        rest: list[nn.Parameter] = []
        for name, p in model.named_parameters():
            if p.dim() == 2 and ".layers." in name:
                self._stacks.setdefault(tuple(p.shape), []).append(p)
            else:
                rest.append(p)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in rest if p.dim() > 1], "weight_decay": weight_decay, "pace": config.adam_rate},
            {"params": [p for p in rest if p.dim() < 2], "weight_decay": 0.0, "pace": config.adam_rate},
        ]
        device = rest[0].device
        super().__init__(groups, device, (0.9, 0.98), config.clip, [p for ps in self._stacks.values() for p in ps])
        self._momenta = {k: torch.zeros(len(v), *k, device=device) for k, v in self._stacks.items()}
        self._muon_rate = torch.zeros((), device=device)
        self._of_average = list(model.parameters())
        self.average = [p.detach().clone() for p in self._of_average]

    def rate(self, value: float) -> None:
        super().rate(value)
        self._muon_rate.fill_(value * self._config.muon_rate)

    @torch.no_grad()
    def step(self) -> None:
        """Clip, update, average. A gradient that is not finite is dropped."""
        super().step()
        for shape, group in self._stacks.items():
            gradient, momentum = torch.stack([p.grad for p in group if p.grad is not None]), self._momenta[shape]
            momentum.lerp_(gradient, 1 - _MOMENTUM)
            update = orthogonalise(gradient.lerp(momentum, _MOMENTUM)).float()
            update *= -self._muon_rate * _UPDATE_SIZE * max(shape) ** 0.5
            tensors = list[Tensor](group)
            torch._foreach_mul_(tensors, 1 - self._muon_rate * self._decay)
            torch._foreach_add_(tensors, list(update.unbind(0)))
        torch._foreach_lerp_(self.average, list[Tensor](self._of_average), 1 - self._config.average)

    def state_dict(self) -> dict[str, Any]:
        return {"adam": super().state_dict(), "momenta": self._momenta, "average": self.average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state["adam"])
        with torch.no_grad():
            for key, momentum in self._momenta.items():
                momentum.copy_(state["momenta"][key])
            torch._foreach_copy_(self.average, state["average"])


def averaged(model: nn.Module, average: Sequence[Tensor]) -> dict[str, Tensor]:
    """The state dict of `model` with the averaged parameters in place of its own."""
    return dict(zip((name for name, _ in model.named_parameters()), average, strict=True))
