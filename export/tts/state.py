"""The tensors of state that the codec decoder hands from one call to the next: their names, shapes and order.

Each has its full size from the first call on and is all zeros before it; ``past_valid`` tells which of the kept frames
are real. A convolution's tail holds the inputs before its next one, and zeros there are its causal padding.
"""

from dataclasses import dataclass

from export.tts.codec_dims import DILATIONS, KERNEL, PRE_KERNEL, CodecDims

PAST = "past_"


@dataclass(frozen=True, slots=True)
class State:
    """One tensor of the state, with its ``shape`` without the batch."""

    name: str
    shape: tuple[int, ...]

    @property
    def next(self) -> str:
        """The name of the output that holds the tensor after a call."""
        return f"next_{self.name.removeprefix(PAST)}"


def tails(dims: CodecDims) -> list[tuple[int, int]]:
    """The channels and the length of the tail of every convolution but the first, in the order of evaluation."""
    found = [(dims.latent, KERNEL - 1) for _ in dims.ratios]
    found.append((dims.latent, KERNEL - 1))
    channels = dims.channels
    for _ in dims.rates:
        found.append((channels, 1))
        channels //= 2
        found += [(channels, (KERNEL - 1) * dilation) for dilation in DILATIONS]
    found.append((channels, KERNEL - 1))
    return found


def states(dims: CodecDims) -> list[State]:
    """All tensors of the state, in the order of the graph's inputs and outputs."""
    kept = dims.window - 1
    rows = (dims.kv_heads, kept, dims.head_dim)
    return [
        State("pre_conv_h", (dims.code_width, PRE_KERNEL - 1)),
        *(State(f"conv_h_{index}", shape) for index, shape in enumerate(tails(dims))),
        *(State(f"{PAST}{kind}_{layer}", rows) for kind in ("key", "value") for layer in range(dims.layers)),
        State(f"{PAST}valid", (kept,)),
    ]
