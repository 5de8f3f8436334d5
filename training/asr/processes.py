"""The processes that train one model, one a device: they hear each their own rows and apply one and the same update.

Alone (no WORLD_SIZE in the environment, as torchrun sets it) nothing is sent anywhere.
"""

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

_AGREE = 10  # steps after which the clocks are compared


class Processes:
    """This process among the others."""

    def __init__(self) -> None:
        self.rank, self.count = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.alone = self.count == 1
        self._agreed: tuple[float, float] | None = None

    def device(self, kind: str) -> torch.device:
        """Mine: "cuda" gives one a process, "cpu" all the same."""
        return torch.device(kind, int(os.environ.get("LOCAL_RANK", 0))) if kind == "cuda" else torch.device(kind)

    def join(self, device: torch.device) -> None:
        """Meet the others."""
        self._device = device
        if not self.alone:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def average(self, gradient: Tensor) -> None:
        """The mean of all processes' gradients, in place."""
        if not self.alone:
            dist.all_reduce(gradient)
            gradient.div_(self.count)

    def clock(self, spent: float, seconds: float, step: int) -> tuple[float, float]:
        """(spent, seconds of the run): the first process's for all, so that rates, and the end, are the same
        everywhere. Between comparisons time stands still."""
        if self.alone:
            return spent, seconds
        if self._agreed is None or step % _AGREE == 0:  # a run that is gone on with may begin at any step
            clock = torch.tensor([spent, seconds], dtype=torch.float64, device=self._device)
            dist.broadcast(clock, 0)
            first, last = clock.tolist()
            self._agreed = first, last
        return self._agreed

    def same(self, model: nn.Module) -> None:
        """Give all the first one's weights."""
        if not self.alone:
            for p in model.state_dict().values():
                dist.broadcast(p, 0)

    def apart(self, parameters: Sequence[Tensor]) -> float:
        """How far the processes' weights are from the first one's, 0 where they are the same. They must be: every
        process applies the same update."""
        if self.alone:
            return 0.0
        mine = torch.stack([p.detach().double().abs().sum() for p in parameters])
        of_all = [torch.empty_like(mine) for _ in range(self.count)]
        dist.all_gather(of_all, mine)
        return max(float((other - of_all[0]).abs().max()) for other in of_all)
