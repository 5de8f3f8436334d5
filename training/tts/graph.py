"""A training step as CUDA graphs, and what such a step needs: rates as tensors, gradients in one flat tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_WARM_UP = 4  # runs before capture: lazy state of optimiser, cuDNN and compiled functions


class Learner:
    """AdamW on those of some parameters that require a gradient. The gradients lie in one flat tensor, so that ranks
    average it and clipping is one operation; backward passes add to it.
    """

    def __init__(
        self, groups: list[dict[str, Any]], device: torch.device, betas: tuple[float, float], clip: float
    ) -> None:
        """groups: params, weight_decay, and pace (of the rate) where it is not 1."""
        # A rate is a tensor: it changes between replays of a captured step.
        groups = [
            {
                "pace": 1.0,
                **g,
                "params": [p for p in g["params"] if p.requires_grad],
                "lr": torch.zeros((), device=device),
            }
            for g in groups
        ]
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(groups, betas=betas, fused=cuda, capturable=cuda)
        parameters: list[nn.Parameter] = [p for group in groups for p in group["params"]]
        sizes = [p.numel() for p in parameters]
        self.gradient = torch.zeros(sum(sizes), device=device)
        for p, part in zip(parameters, self.gradient.split(sizes), strict=True):
            p.grad = part.view_as(p)
        self.norm = torch.zeros((), device=device)
        self.parameters, self._clip = parameters, clip

    def rate(self, value: float) -> None:
        """Set the rate of learning."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value * group["pace"])

    def clear(self) -> None:
        """No gradient yet."""
        self.gradient.zero_()

    def step(self) -> None:
        """A step with the clipped gradient; with none where it is not finite, which would poison the weights."""
        self.norm.copy_(self.gradient.norm())
        scale = (self._clip / self.norm.clamp(min=1e-6)).clamp(max=1.0)
        self.gradient.copy_(torch.where(self.norm.isfinite(), self.gradient * scale, 0.0))
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)


def captured(
    step: Callable[[], None], fill: Callable[[], None], device: torch.device, *, graphs: bool, pool: object = None
) -> tuple[Callable[[], None], object]:
    """`step` as a graph over the buffers that `fill` writes, and its memory pool; `step` itself on a CPU, without
    `graphs`, or (said aloud) where capture fails. It is run a few times before.
    """
    if device.type != "cuda" or not graphs:
        return step, None
    try:
        return _capture(step, fill, pool)
    except Exception as error:  # a step without a graph is slower, no step is no training
        print(f"WARNING: no graph, steps run one kernel at a time: {error!r}"[:600], flush=True)
        return step, None


def _capture(step: Callable[[], None], fill: Callable[[], None], pool: object) -> tuple[Callable[[], None], object]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            fill()
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        step()
    return graph.replay, graph.pool()


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 on an accelerator. No weight cache: it would leave casts out of the graph."""
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False, enabled=device.type == "cuda")
