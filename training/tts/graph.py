"""A training step as one CUDA graph, and what such a step needs: rates as tensors, gradients that cannot poison the
weights.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

_WARM_UP = 4  # runs before capture: lazy state of optimiser, cuDNN and compiled functions


def adamw(
    parameters: Iterable[nn.Parameter] | list[dict[str, object]], device: torch.device,
    betas: tuple[float, float], weight_decay: float,
) -> torch.optim.AdamW:  # fmt: skip
    """AdamW whose rate may change between replays of a captured step."""
    rate, cuda = torch.zeros((), device=device), device.type == "cuda"
    return torch.optim.AdamW(parameters, lr=rate, betas=betas, weight_decay=weight_decay, fused=cuda, capturable=cuda)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"].fill_(rate)


def apply(optimizer: torch.optim.Optimizer, clip: float) -> Tensor:
    """A step with clipped gradients; with zero gradients where any is not finite. Returns the gradients' norm."""
    held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = torch.nn.utils.clip_grad_norm_(held, clip, foreach=True)
    for p in held:
        p.grad.masked_fill_(~torch.isfinite(norm), 0.0)
    optimizer.step()
    return norm


def captured(
    step: Callable[[], None], fill: Callable[[], None], device: torch.device, *, graphs: bool, pool: object = None
) -> tuple[Callable[[], None], object]:
    """`step` as a graph over the buffers that `fill` writes, and its memory pool; `step` itself on a CPU, without
    `graphs`, or (said aloud) where capture fails. The warm-up runs are training steps at the rate that is set.
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
