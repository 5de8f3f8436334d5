"""A training step, its parts on the device as CUDA graphs, and who learns in it: rates as tensors, gradients in one
flat tensor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.ranks import Ranks

CAPTURE = "thread_local"  # what other threads ask of CUDA meanwhile does not end a capture


class Learner:
    """AdamW on those of some parameters that require a gradient. The gradients lie in one flat tensor, so that ranks
    average it and clipping is one operation; backward passes add to it.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        device: torch.device,
        betas: tuple[float, float],
        clip: float,
        others: Iterable[nn.Parameter] = (),
    ) -> None:
        """groups: params, weight_decay, and pace (of the rate) where it is not 1; others: parameters with gradients
        that AdamW leaves alone."""
        # A rate is a tensor: it changes between replays of a captured step.
        trained = [[p for p in group["params"] if p.requires_grad] for group in groups]
        groups = [
            {"pace": 1.0} | group | {"params": params, "lr": torch.zeros((), device=device)}
            for group, params in zip(groups, trained, strict=True)
        ]
        cuda = device.type == "cuda"
        self.optimizer = torch.optim.AdamW(groups, betas=betas, fused=cuda, capturable=cuda)
        parameters: list[nn.Parameter] = [*(p for group in groups for p in group["params"]), *others]
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


class Step:
    """Gradients of what lies in buffers, averaged over the ranks, and an update.

    measures: what is reported, float32; the last is the norm of the first learner's gradient.
    """

    def __init__(self, ranks: Ranks, measures: Sequence[str], parts: Mapping[str, nn.Module | Learner]) -> None:
        """parts: everything that steps change, by name; their states are taken before anything is captured."""
        self._ranks, self.device, self.parts = ranks, ranks.device, parts
        self.learners = [part for part in parts.values() if isinstance(part, Learner)]
        self.measures = torch.zeros(len(measures), device=self.device)
        self.buffers: list[Tensor] = []
        self._pool: object = None

    def shared(self) -> list[Tensor]:
        """What steps change without a gradient, and all processes take from the first."""
        return []

    def rate(self, value: float) -> None:
        """Set the rate of learning."""
        for learner in self.learners:
            learner.rate(value)

    def measure(self, *values: Tensor) -> None:
        """Note what is reported, without the norm."""
        self.measures[:-1].copy_(torch.stack([value.detach().float() for value in values]))

    def finding(self, draw: Callable[[], Sequence[Tensor]], gradients: Callable[..., None]) -> Callable[[], None]:
        """What fills buffers of its own by `draw` and does `gradients`, which takes them; the memory of graphs before
        serves this one too."""
        self.buffers = buffers = [tensor.clone() for tensor in draw()]

        def fill() -> None:
            for buffer, new in zip(buffers, draw(), strict=True):
                buffer.copy_(new)

        def find() -> None:
            self._clear()
            gradients(*buffers)

        found = self._captured(find, fill)

        def run() -> None:
            fill()
            found()

        return run

    def learning(self) -> Callable[[], None]:
        """What learns from the gradients of all ranks."""

        def learn() -> None:
            for learner in self.learners:
                learner.step()
            self.measures[-1] = self.learners[0].norm

        learnt = self._captured(learn, self._clear)

        def run() -> None:
            for learner in self.learners:
                self._ranks.mean(learner.gradient)
            self._ranks.copy(self.shared())
            learnt()

        return run

    def whole(self, draw: Callable[[], Sequence[Tensor]], gradients: Callable[..., None]) -> Callable[[], None]:
        """What does `finding` and `learning`; graphs made before are not used any more."""
        self._pool = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        find, learn = self.finding(draw, gradients), self.learning()

        def run() -> None:
            find()
            learn()

        return run

    def _clear(self) -> None:
        for learner in self.learners:
            learner.clear()

    def _captured(self, step: Callable[[], None], fill: Callable[[], None]) -> Callable[[], None]:
        self.rate(1e-6)
        made, pool = captured(step, fill, self.device, self._pool)
        self._pool = self._pool or pool
        return made


def captured(
    step: Callable[[], None], fill: Callable[[], None], device: torch.device, pool: object = None
) -> tuple[Callable[[], None], object]:
    """`step` as a graph over the buffers that `fill` writes, and its memory pool; `step` itself on a CPU or (said
    aloud) where capture fails. It is run a few times before.
    """
    if device.type != "cuda":
        return step, None
    try:
        return _capture(step, fill, pool)
    except Exception as error:  # a step without a graph is slower, no step is no training
        print(f"WARNING: no graph, steps run one kernel at a time: {error!r}"[:600], flush=True)
        return step, None


def _capture(step: Callable[[], None], fill: Callable[[], None], pool: object) -> tuple[Callable[[], None], object]:
    def run() -> None:
        fill()
        step()

    warm_up(run)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode=CAPTURE):
        step()
    return graph.replay, graph.pool()


def warm_up(run: Callable[[], object]) -> None:
    """A few runs on a stream of their own before what they do is captured: they make the lazy state of optimiser, cuDNN
    and compiled functions."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):
            run()
    torch.cuda.current_stream().wait_stream(stream)


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 on an accelerator. No weight cache: it would leave casts out of the graph."""
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False, enabled=device.type == "cuda")
