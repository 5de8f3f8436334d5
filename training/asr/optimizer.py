"""Muon learns the matrices of the layers and AdamW everything else. Here is also what a run must keep of both to go on.

`step` reads nothing back from the device, so it can be captured.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from training.asr.config import Optimisation
from training.learner import Learner

# The momentum is Muon's own (Jordan et al. 2024).
_MOMENTUM = 0.95
_DECODER = "thinker.model."
# Parts of the model that begin as nothing, or that were learnt for other layers.
_NEW = "conv", "proj1", "proj2", "ctc", "taught"
# The root mean square of Muon's update for each unit of its rate, as AdamW's updates have it, so that both can share a
# rate (Moonlight, Liu et al. 2025).
_UPDATE_SIZE = 0.2


def orthogonalise(matrices: Tensor) -> Tensor:
    """Make matrices [N, a, b] nearly orthogonal by Muon's Newton-Schulz iteration (quintic, in bfloat16, with the
    published coefficients)."""
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
    """The optimiser of all parameters of a model. Its rate is 0 to 1 of the peak rates, and the decoder's is a part of
    that."""

    def __init__(self, model: nn.Module, config: Optimisation, weight_decay: float) -> None:
        self._config, self._decay = config, weight_decay
        self._stacks: dict[str, list[nn.Parameter]] = {}
        rest: dict[tuple[bool, bool, bool], list[nn.Parameter]] = {}
        for name, p in model.named_parameters():
            reads = name.startswith(_DECODER)
            if p.dim() == 2 and ".layers." in name:
                self._stacks.setdefault(f"{_DECODER if reads else ''}{p.shape[0]}x{p.shape[1]}", []).append(p)
            else:
                new = any(part in name for part in _NEW)
                rest.setdefault((p.dim() > 1, new, reads), []).append(p)
        groups: list[dict[str, Any]] = [
            {
                "params": parameters, "weight_decay": weight_decay if matrices else 0.0, "reads": reads,
                "pace": config.adam_rate * (config.new_pace if new else 1),
            }
            for (matrices, new, reads), parameters in rest.items()
        ]  # fmt: skip
        device = next(model.parameters()).device
        super().__init__(groups, device, (0.9, 0.98), config.clip, [p for ps in self._stacks.values() for p in ps])
        self._momenta = {k: torch.zeros(len(v), *v[0].shape, device=device) for k, v in self._stacks.items()}
        self._muon_rate, self._reading_rate = torch.zeros((), device=device), torch.zeros((), device=device)

    def rate(self, value: float, reading: float = 1.0) -> None:
        """Set the rate. reading: the decoder's, as a part of `value`."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value * group["pace"] * (reading if group["reads"] else 1.0))
        self._muon_rate.fill_(value * self._config.muon_rate)
        self._reading_rate.fill_(value * self._config.muon_rate * reading)

    @torch.no_grad()
    def step(self) -> None:
        """Clip the gradient and update. A gradient that is not finite is dropped."""
        super().step()
        for kind, group in self._stacks.items():
            gradient, momentum = torch.stack([p.grad for p in group if p.grad is not None]), self._momenta[kind]
            rate = self._reading_rate if kind.startswith(_DECODER) else self._muon_rate
            momentum.lerp_(gradient, 1 - _MOMENTUM)
            update = orthogonalise(gradient.lerp(momentum, _MOMENTUM)).float()
            update *= -rate * _UPDATE_SIZE * max(group[0].shape) ** 0.5
            tensors = list[Tensor](group)
            torch._foreach_mul_(tensors, 1 - rate * self._decay)
            torch._foreach_add_(tensors, list(update.unbind(0)))

    def kept(self) -> dict[str, Tensor]:
        """Give also Muon's momenta, as int8 with a scale for each row of a matrix, which is a quarter of their size."""
        out = super().kept()
        for kind, momentum in self._momenta.items():
            scale = momentum.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
            out[f"muon.{kind}"] = (momentum / scale).round().to(torch.int8)
            out[f"muon.{kind}.scale"] = scale
        return out

    @torch.no_grad()
    def take(self, kept: Mapping[str, Tensor]) -> None:
        super().take(kept)
        for kind, momentum in self._momenta.items():
            whole, scale = (kept[f"muon.{kind}{end}"].to(momentum.device) for end in ("", ".scale"))
            momentum.copy_(whole.float() * scale)
