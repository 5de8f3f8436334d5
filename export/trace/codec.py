"""The codec's decoder as one module for export: it takes codes and states and gives samples and the next states.

The mathematics is that of qwen-tts 0.1.1, modeling_qwen3_tts_tokenizer_v2.py:824-884. It is strictly causal, so frames
can be decoded in calls of any length if every convolution gets the inputs before its own and every layer the keys of
the window.

- Keys are kept un-rotated. Every query gets the rows of its own window, rotated by their distance to it, since RoPE
  depends on differences of positions only.
- However frames are split into calls, each sum has the same terms, and in one thread of ONNX Runtime on a CPU the same
  order, so the samples are the same to the bit.
- Padding frames (codes −1) follow the valid ones. No valid frame depends on them, and every next state is gathered at
  the last valid frame.
- The form is what DirectML accepts (rules.py): positions come from cumsum, masks are added, and ConvTranspose has two
  dimensions and is cut by its own padding.

In float16 graphs the norms, the softmax, the sine and the positions are computed in float32.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from export.checkpoint import Checkpoint
from export.trace.codec_layers import (
    ConvNeXt,
    Convolution,
    RmsNorm,
    Snake,
    Tails,
    Unit,
    Upsampling,
    windows,
)
from export.trace.encoder import MASKED, Linear
from export.trace.weights import Read, constant, reader
from export.transforms import apply
from export.tts.codec_dims import DILATIONS, CodecDims


class Codebooks(nn.Module):
    """codes [B, N, Q] → [B, code_width, N]: the semantic codebook and the sum of the acoustic ones, each projected."""

    def __init__(self, dims: CodecDims, read: Read, dtype: torch.dtype) -> None:
        super().__init__()
        prefix = "decoder.quantizer."
        books = [f"{prefix}rvq_first.vq.layers.0._codebook."]
        books += [f"{prefix}rvq_rest.vq.layers.{index}._codebook." for index in range(dims.codebooks - 1)]
        # A codebook's vectors are running sums divided by running counts (:676-679).
        parts = [(read(f"{book}embedding_sum"), read(f"{book}cluster_usage")) for book in books]
        self.table = constant(apply("join", *(apply("quotient", *part) for part in parts)), dtype)
        self.first = nn.Buffer(torch.arange(dims.codebooks) * dims.entries)
        self.semantic, self.acoustic = (
            Linear(apply("matrix", read(f"{prefix}{group}.output_proj.weight")), None, dtype)
            for group in ("rvq_first", "rvq_rest")
        )

    def forward(self, codes: Tensor) -> Tensor:
        rows = functional.embedding(codes.clamp(min=0) + self.first, self.table)
        semantic, acoustic = rows[:, :, 0], rows[:, :, 1:].sum(2)
        return (self.semantic(semantic) + self.acoustic(acoustic)).transpose(1, 2)


class Window:
    """What all layers share in one call: which rows each query sees, the rows' rotation and mask, and which rows are
    kept.

    ``past_valid`` [B, window − 1] float, ``valid`` [B, N] bool (a prefix of each row), ``cos`` and ``sin`` [window,
    head_dim / 2] of the rows' distances to their query.
    """

    def __init__(
        self, dims: CodecDims, past_valid: Tensor, valid: Tensor, frames: Tensor, cos: Tensor, sin: Tensor
    ) -> None:
        kept = dims.window - 1
        known = torch.cat((past_valid, valid.to(past_valid.dtype)), 1)
        self.cos, self.sin = cos, sin
        self.size, self.kept, self.heads = dims.window, kept, dims.kv_heads
        self.places = windows(valid, torch.arange(dims.window))
        real = known.float().index_select(1, self.places).unflatten(1, (-1, dims.window))
        self.bias = ((real - 1.0) * MASKED).unsqueeze(1).expand(-1, dims.heads, -1, -1).flatten(1, 2).unsqueeze(2)
        # Row (b, h, j) of [B, H, S, D] is row (b · H + h) · S + j of its flat form; the kept ones begin at j = frames.
        length = torch.ones_like(known[:1], dtype=torch.int64).cumsum(1)[:, -1:]
        item = (torch.ones_like(frames).cumsum(0) - 1).unsqueeze(1) * dims.kv_heads + torch.arange(dims.kv_heads)
        places = (frames.unsqueeze(1) + torch.arange(kept)).clamp(max=known.shape[1] - 1)
        self.rows = ((item * length).unsqueeze(2) + places.unsqueeze(1)).flatten()
        self.valid = known.gather(1, places)

    def seen(self, x: Tensor) -> Tensor:
        """The rows of x [B, H, S, D] that each query sees: [B, H · N, window, D]."""
        return x.index_select(2, self.places).unflatten(2, (-1, self.size)).flatten(1, 2)

    def rotate(self, x: Tensor) -> Tensor:
        """RoPE in split halves on x [B, H · N, window, D]."""
        low, high = x.chunk(2, -1)
        return torch.cat((low * self.cos - high * self.sin, high * self.cos + low * self.sin), -1)

    def keep(self, x: Tensor) -> Tensor:
        """The last ``window − 1`` rows up to the last valid one of x [B, H, S, D]."""
        return x.flatten(0, 2).index_select(0, self.rows).unflatten(0, (-1, self.heads, self.kept))


class Layer(nn.Module):
    """A pre-norm transformer layer whose branches are both scaled channel by channel."""

    def __init__(self, dims: CodecDims, read: Read, prefix: str, dtype: torch.dtype) -> None:
        super().__init__()
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        inputs = [read(f"{attention}{name}.weight") for name in ("q_proj", "k_proj", "v_proj")]
        self.split = [weight.shape[0] for weight in inputs]
        self.inputs = Linear(apply("join", *inputs), None, dtype)
        self.out = Linear(read(f"{attention}o_proj.weight"), None, dtype)
        self.gate_up = Linear(
            apply("join", *(read(f"{mlp}{name}.weight") for name in ("gate_proj", "up_proj"))), None, dtype
        )
        self.down = Linear(read(f"{mlp}down_proj.weight"), None, dtype)
        self.attention_norm, self.mlp_norm = (
            RmsNorm(read(f"{prefix}{name}.weight"), dims.epsilon)
            for name in ("input_layernorm", "post_attention_layernorm")
        )
        self.attention_scale, self.mlp_scale = (
            constant(read(f"{prefix}{name}.scale"), dtype) for name in ("self_attn_layer_scale", "mlp_layer_scale")
        )
        self.heads, self.groups = dims.heads, dims.heads // dims.kv_heads
        self.head_dim, self.scale = dims.head_dim, dims.head_dim**-0.5

    def forward(self, x: Tensor, window: Window, past_key: Tensor, past_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.inputs(self.attention_norm(x)).split(self.split, -1)
        query, key, value = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in parts)
        key, value = torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)
        turned = window.rotate(window.seen(self.spread(key))).transpose(2, 3)
        scores = torch.matmul(query.flatten(1, 2).unsqueeze(2) * self.scale, turned)
        shares = torch.softmax(scores.float() + window.bias, -1).to(x.dtype)
        mixed = torch.matmul(shares, window.seen(self.spread(value))).squeeze(2)
        mixed = mixed.unflatten(1, (self.heads, -1)).transpose(1, 2).flatten(2)
        x = x + self.out(mixed) * self.attention_scale
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up) * self.mlp_scale, window.keep(key), window.keep(value)

    def spread(self, x: Tensor) -> Tensor:
        """Repeat key or value heads for each of their query heads."""
        if self.groups == 1:
            return x
        return x.unsqueeze(2).expand(-1, -1, self.groups, -1, -1).flatten(1, 2)


class CodecDecoder(nn.Module):
    """audio_codes [B, N, Q] int64 (−1 pads on the right), is_last [1], states → final_wav [B, N · frame_samples],
    valid_samples [B] int64, next states.

    ``is_last`` has no effect; other exporters' graphs have it. The states have the order of
    ``export.tts.state.states``.
    """

    def __init__(self, dims: CodecDims, read: Read, dtype: torch.dtype) -> None:
        super().__init__()
        self.dims = dims
        self.codebooks = Codebooks(dims, read, dtype)
        self.pre = Convolution(read, "decoder.pre_conv.", dtype, 1)
        transformer = "decoder.pre_transformer."
        self.enter, self.leave = (
            Linear(read(f"{transformer}{name}.weight"), read(f"{transformer}{name}.bias"), dtype)
            for name in ("input_proj", "output_proj")
        )
        self.layers = nn.ModuleList(
            Layer(dims, read, f"{transformer}layers.{index}.", dtype) for index in range(dims.layers)
        )
        self.norm = RmsNorm(read(f"{transformer}norm.weight"), dims.epsilon)
        distance = torch.arange(1 - dims.window, 1, dtype=torch.float64).unsqueeze(1)
        exponents = torch.arange(0, dims.head_dim, 2, dtype=torch.float64) / dims.head_dim
        angles = distance / dims.rope_theta**exponents
        self.cos, self.sin = nn.Buffer(angles.cos().to(dtype)), nn.Buffer(angles.sin().to(dtype))
        self.stretches, self.nexts = nn.ModuleList(), nn.ModuleList()
        steps = 1
        for index, ratio in enumerate(dims.ratios):
            self.stretches.append(Upsampling(read, f"decoder.upsample.{index}.0.", dtype, steps, ratio))
            steps *= ratio
            self.nexts.append(ConvNeXt(dims, read, f"decoder.upsample.{index}.1.", dtype, steps))
        self.head = Convolution(read, "decoder.decoder.0.", dtype, steps)
        self.snakes, self.rises, self.units = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for index, rate in enumerate(dims.rates, 1):
            block = f"decoder.decoder.{index}.block."
            self.snakes.append(Snake(read, f"{block}0."))
            self.rises.append(Upsampling(read, f"{block}1.", dtype, steps, rate))
            steps *= rate
            self.units.append(
                nn.ModuleList(
                    Unit(read, f"{block}{2 + place}.", dtype, steps, dilation)
                    for place, dilation in enumerate(DILATIONS)
                )
            )
        last = len(dims.rates) + 1
        self.snakes.append(Snake(read, f"decoder.decoder.{last}."))
        self.tail = Convolution(read, f"decoder.decoder.{last + 1}.", dtype, steps)

    def forward(self, audio_codes: Tensor, is_last: Tensor, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        layers = self.dims.layers
        *tails, past_valid = states
        past, tails = tails[-2 * layers :], tails[: -2 * layers]
        valid = audio_codes[:, :, 0] > -1
        frames = valid.to(torch.int64).sum(1)
        history = Tails(tails, frames)
        x = self.pre(self.codebooks(audio_codes), history)
        window = Window(self.dims, past_valid, valid, frames, self.cos, self.sin)
        x, kept = self.transform(x.transpose(1, 2), window, past)
        wave = self.vocode(x.transpose(1, 2), history)
        samples = frames * self.dims.frame_samples
        return wave, samples, *history.next, *kept, window.valid

    def transform(self, x: Tensor, window: Window, past: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Pass rows [B, N, latent] through the transformer. Returns the rows, and all next keys followed by all next
        values."""
        x = self.enter(x)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        count = len(self.layers)
        for layer, past_key, past_value in zip(self.layers, past[:count], past[count:], strict=True):
            x, key, value = layer(x, window, past_key, past_value)
            keys.append(key)
            values.append(value)
        return self.leave(self.norm(x)), keys + values

    def vocode(self, x: Tensor, history: Tails) -> Tensor:
        """Latents [B, latent, N] → samples [B, N · frame_samples]."""
        for stretch, block in zip(self.stretches, self.nexts, strict=True):
            x = block(stretch(x, history), history)
        x = self.head(x, history)
        for snake, rise, units in zip(self.snakes, self.rises, self.units, strict=False):
            x = rise(snake(x), history)
            for unit in units:
                x = unit(x, history)
        return self.tail(self.snakes[-1](x), history).squeeze(1).clamp(-1, 1)


def build_codec(codec: Checkpoint, dims: CodecDims, *, half: bool = False) -> CodecDecoder:
    """The decoder with the checkpoint's weights; if ``half``, weights and activations are float16."""
    return CodecDecoder(dims, reader(codec), torch.float16 if half else torch.float32).eval()
