"""A training step whose parts run on the device as CUDA graphs, and the optimiser that learns in it. Rates are tensors
and the gradients are one flat tensor, so that a captured graph can be replayed with new values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from training.ranks import Ranks

_STEP, _MOMENTS = "step", ("exp_avg", "exp_avg_sq")  # These are the names that AdamW gives to its state of a parameter.
# With this mode, what other threads ask of CUDA does not end a capture.
CAPTURE = "thread_local"


def settle() -> None:
    """Set what all runs ask of PyTorch before anything is compiled: a compiler keeps what it made under these
    settings."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True


class Learner:
    """AdamW on those of some parameters that require a gradient. The gradients lie in one flat tensor, to which
    backward passes add, so that averaging it over the ranks and clipping it are one operation each."""

    def __init__(
        self,
        groups: list[dict[str, Any]],
        device: torch.device,
        betas: tuple[float, float],
        clip: float,
        others: Iterable[nn.Parameter] = (),
    ) -> None:
        """groups: dictionaries with `params`, `weight_decay` and, where it is not 1, `pace`, by which the rate is
        multiplied; others: parameters that have gradients and that AdamW leaves alone."""
        # A rate is a tensor, because it changes between replays of a captured step.
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
        where = device if cuda else torch.device("cpu")
        for p in (
            p for group in groups for p in group["params"]
        ):  # here and now: a state needs a place to be read into
            self.optimizer.state[p] = {"step": torch.zeros((), device=where)}
            self.optimizer.state[p] |= {name: torch.zeros_like(p) for name in _MOMENTS}

    def rate(self, value: float) -> None:
        """Set the rate of learning of all learners."""
        for group in self.optimizer.param_groups:
            group["lr"].fill_(value * group["pace"])

    def clear(self) -> None:
        """Begin a step without any gradient."""
        self.gradient.zero_()

    def step(self) -> None:
        """Make a step with the clipped gradient. A gradient that is not finite would poison the weights, so it counts
        as zero."""
        self.norm.copy_(self.gradient.norm())
        scale = (self._clip / self.norm.clamp(min=1e-6)).clamp(max=1.0)
        self.gradient.copy_(torch.where(self.norm.isfinite(), self.gradient * scale, 0.0))
        self.optimizer.step()

    def kept(self) -> dict[str, Tensor]:
        """Give what a state must hold, by name: AdamW's moments as bfloat16, which halves them, and its count of
        steps."""
        states = enumerate(self.optimizer.state.values())
        found = {f"{i}.{name}": state[name] for i, state in states for name in (_STEP, *_MOMENTS)}
        return {name: value if name.endswith(_STEP) else value.bfloat16() for name, value in found.items()}

    @torch.no_grad()
    def take(self, kept: Mapping[str, Tensor]) -> None:
        """Go on with what `kept` gave. The values are copied into the tensors that captured steps know."""
        for i, state in enumerate(self.optimizer.state.values()):
            for name in (_STEP, *_MOMENTS):
                state[name].copy_(kept[f"{i}.{name}"])


class Step:
    """A step finds the gradients of what lies in buffers, averages them over the ranks and updates the weights.

    measures: float32, what is reported; the last one is the norm of the first learner's gradient.
    """

    def __init__(self, ranks: Ranks, measures: Sequence[str], parts: Mapping[str, nn.Module | Learner]) -> None:
        """parts: everything that steps change, by name. A run takes their states before anything is captured."""
        self._ranks, self.device, self.parts = ranks, ranks.device, parts
        self.learners = [part for part in parts.values() if isinstance(part, Learner)]
        self.measures = torch.zeros(len(measures), device=self.device)
        self.buffers: list[Tensor] = []
        self._pool: object = None

    def rate(self, value: float) -> None:
        """Set the rate of learning."""
        for learner in self.learners:
            learner.rate(value)

    def measure(self, *values: Tensor) -> None:
        """Note what is reported, all but the norm."""
        self.measures[:-1].copy_(torch.stack([value.detach().float() for value in values]))

    def finding(self, draw: Callable[[], Sequence[Tensor]], gradients: Callable[..., None]) -> Callable[[], None]:
        """Give a function that fills buffers of its own from `draw` and calls `gradients` with them. Its graph uses the
        memory of the graphs that were made before it."""
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
        """Give a function that learns from the gradients of all ranks."""

        def learn() -> None:
            for learner in self.learners:
                learner.step()
            self.measures[-1] = self.learners[0].norm

        learnt = self._captured(learn, self._clear)

        def run() -> None:
            for learner in self.learners:
                self._ranks.mean(learner.gradient)
            learnt()

        return run

    def whole(self, draw: Callable[[], Sequence[Tensor]], gradients: Callable[..., None]) -> Callable[[], None]:
        """Give a function that does `finding` and `learning` in turn. Graphs that were made before are not used any
        more, so their memory is given back."""
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
    """Give `step` as a graph over the buffers that `fill` writes, and the graph's pool of memory. On a CPU, and where
    the capture fails, which is printed, `step` itself is given. It is run a few times before it is captured."""
    if device.type != "cuda":
        return step, None
    try:
        return _capture(step, fill, pool)
    except Exception as error:  # A step without a graph is slower, but no step would be no training.
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
    """Run something a few times on a stream of its own before it is captured. These runs make the state that the
    optimiser, cuDNN and compiled functions make at their first call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(4):
            run()
    torch.cuda.current_stream().wait_stream(stream)


def autocast(device: torch.device) -> torch.autocast:
    """Give a context of bfloat16 on an accelerator. Weights are not cached in it, because a cached cast would be
    missing from the graph."""
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False, enabled=device.type == "cuda")
