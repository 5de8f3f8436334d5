"""The rate of learning in the course of a run.

Contract: a function of what is done alone, so that a run may follow the clock or count its steps.
"""

import math


def rate_at(progress: float, step: int, peak: float, final: float, warmup: int) -> float:
    """Linear warm-up over `warmup` steps, then a cosine from `peak` to `final` · `peak` as `progress` goes 0 -> 1."""
    falling = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * min(max(progress, 0.0), 1.0)))
    return peak * min(1.0, (step + 1) / max(warmup, 1)) * falling
