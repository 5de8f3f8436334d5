"""The state that the codec decoder hands from one call to the next: names, shapes, order.

Everything is at full size from the first call and zero-filled at the start; ``past_valid`` says which of the kept
frames are real. A convolution's tail is what precedes its next input: zeros there are its causal padding.
"""

from dataclasses import dataclass

from export.tts.codec_dims import DILATIONS, KERNEL, PRE_KERNEL, CodecDims

PAST = "past_"


@dataclass(frozen=True, slots=True)
class State:
    """One tensor of the state; ``shape`` without the batch."""

    name: str
    shape: tuple[int, ...]

    @property
    def next(self) -> str:
        """The output that holds it after the call."""
        return f"next_{self.name.removeprefix(PAST)}"


def tails(dims: CodecDims) -> list[tuple[int, int]]:
    """Channels and length of every convolution's tail after the first, in the order of evaluation."""
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
    """Every state, in the order of the graph's inputs and outputs."""
    kept = dims.window - 1
    rows = (dims.kv_heads, kept, dims.head_dim)
    return [
        State("pre_conv_h", (dims.code_width, PRE_KERNEL - 1)),
        *(State(f"conv_h_{index}", shape) for index, shape in enumerate(tails(dims))),
        *(State(f"{PAST}{kind}_{layer}", rows) for kind in ("key", "value") for layer in range(dims.layers)),
        State(f"{PAST}valid", (kept,)),
    ]
