"""The processes of a run, one for each GPU, as torchrun starts them. Without torchrun a run is one process.

Contract: every process makes the same steps. `mean` gives all of them one gradient; `same` gives them the first one's
number, which is the clock by which a run is scheduled and ends. Only the first process evaluates, reports and saves.
"""

import os

import torch
import torch.distributed as dist
from torch import Tensor

from training.stages import Share


class Ranks:
    """share: (number of this process, how many there are)."""

    def __init__(self, device: str) -> None:
        """device: "cpu" or "cuda". With several GPUs each process takes its own."""
        self.share: Share = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.device = torch.device(device)
        if self.share[1] == 1:
            return
        if self.device.type == "cuda":
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo")

    @property
    def first(self) -> bool:
        """Whether this process speaks for all."""
        return self.share[0] == 0

    def mean(self, values: Tensor) -> None:
        """Replace `values` by their mean over the processes."""
        if self.share[1] > 1:
            dist.all_reduce(values)
            values /= self.share[1]

    def same(self, value: float) -> float:
        """Give the value that the first process has."""
        if self.share[1] == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)

    def end(self) -> None:
        """Leave the group, when nobody waits for the others any more."""
        if self.share[1] > 1:
            dist.destroy_process_group()
