"""One training step: augmentation, the losses, gradients.

On CUDA forward, backward and update are captured graphs, one pair for each batch shape: without graphs the host
launches some six thousand kernels a step, which takes three times as long as the kernels. CTC stands between the two
graphs, because its kernel wants the lengths on the host. So the forward graph ends in the CTC logits, and the backward
graph begins with their gradient.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.augment import augment, mask_spectrogram, mix_style, paces, read_at
from training.asr.config import Config
from training.asr.encoder import Heard, token_count
from training.asr.model import PocketASR
from training.asr.optimizer import Optimizer
from training.asr.plan import VIEWS, Plan
from training.asr.pool import assemble
from training.asr.spectrogram import LogMel
from training.asr.teacher import WhisperEncoder, states, teachers_mel
from training.learner import CAPTURE, captured, warm_up


class Inputs(NamedTuple):
    """What a step reads: U rows, which are repeated into views."""

    samples: Tensor
    length: Tensor
    prefix: Tensor
    prefix_count: Tensor
    targets: Tensor
    mask: Tensor


class Forward(NamedTuple):
    loss: Tensor  # [] all losses but CTC's
    ctc: Tensor  # [rows, T, V + 1]
    report: Tensor  # [cross-entropy, accuracy, consistency, distance to the states, distance to the stem's rows]


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Give the symmetric KL divergence between two log-distributions [..., C] -> [...]. Each view learns from the
    other, and not from itself."""
    return 0.5 * ((b.detach().exp() * (b.detach() - a)).sum(-1) + (a.detach().exp() * (a.detach() - b)).sum(-1))


def ctc_loss(logits: Tensor, plan: Plan, config: Config) -> tuple[Tensor, Tensor]:
    """Give the CTC loss for each token [] and its weighted gradient at the logits [rows, frames, classes], the blank
    last, of a batch in its views. The gradient is for the graph that made the logits: they are read here and never
    differentiated through."""
    total = max(int(plan.ctc_count.sum()) * VIEWS, 1)
    tokens = torch.from_numpy(plan.ctc).to(logits.device, non_blocking=True).repeat(VIEWS)
    counts = torch.from_numpy(plan.ctc_count).repeat(VIEWS)
    frames = token_count(torch.from_numpy(plan.length) // HOP, config.shape.chunk_frames).repeat(VIEWS)
    leaf, blank = logits.detach().requires_grad_(), logits.shape[-1] - 1
    scores = leaf.log_softmax(-1).transpose(0, 1)
    loss = F.ctc_loss(scores, tokens, frames, counts, blank=blank, reduction="sum", zero_infinity=True)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return loss.detach() / total, gradient * (config.regularisation.ctc / total)


def _layer(layer: Callable[..., Tensor], *inputs: Any) -> Tensor:
    return layer(*inputs)


def compile_layers(model: PocketASR) -> None:
    """Fuse the elementwise work of the layers, which is more than half of a step without graphs. Where the compilation
    fails the plain layers are used."""
    torch._dynamo.config.suppress_errors = True  # pyright: ignore
    # A layer is compiled for several lengths and for each share of its dropout, which are more than the usual 8. Such a
    # share is a constant then: by default a second one becomes a tensor on the host, which a captured step would keep.
    torch._dynamo.config.recompile_limit = 64  # pyright: ignore
    torch._dynamo.config.specialize_float = True  # pyright: ignore
    model.thinker.audio_tower.compiled = torch.compile(_layer)
    model.thinker.model.compiled = torch.compile(_layer)


class Step:
    """`gradients` captures a graph at the first batch of each shape, after a few runs without it. `update` applies the
    flat gradient."""

    def __init__(
        self,
        config: Config,
        model: PocketASR,
        mel: LogMel,
        optimizer: Optimizer,
        audio: Tensor,
        teacher: WhisperEncoder,
        *,
        graphs: bool = True,
    ) -> None:
        """The model must have a head for what is taught (`add_taught`). graphs: whether steps are captured, where they
        can be."""
        self._teacher, self._teachers_mel = teacher, teachers_mel(teacher.bins, audio.device)
        self._config, self._model, self._mel, self._optimizer, self._audio = config, model, mel, optimizer, audio
        self._device = device = audio.device
        self._graphs = graphs and device.type == "cuda"
        self.strength = torch.ones((), device=device)
        self.lead = torch.full((), config.regularisation.taught[0], device=device)
        """The weight of the distance to the states."""
        self._captured: dict[
            tuple[int, ...], tuple[Inputs, Forward, Tensor, torch.cuda.CUDAGraph, torch.cuda.CUDAGraph]
        ] = {}
        self.update, _ = captured(optimizer.step, optimizer.clear, device)
        self._pool: tuple[int, int] | None = None
        self._one = torch.ones((), device=device)

    def _forward(self, x: Inputs) -> Forward:
        reg = self._config.regularisation
        with torch.no_grad():
            length = x.length.repeat(VIEWS)
            heard = augment(x.samples.repeat(VIEWS, 1), length, self.strength)
            frames = length // HOP
            mel = mix_style(self._mel(heard), frames, reg.style * self.strength)
            at = paces(x.length // HOP, mel.shape[2], self.strength)
            # The teacher hears what was cut, joined and paced here. What it makes of whole clips depends on where a
            # piece stands in its clip and on what stands around it, which a student cannot know.
            theirs = read_at(self._teachers_mel(x.samples), at)
            taught = states(self._teacher, theirs, x.length // HOP, self._config.shape.window_frames)
            # All views of a row change their pace alike, because they are compared frame by frame.
            mel = mask_spectrogram(read_at(mel, at.repeat(VIEWS, 1)), frames, self.strength)
        with torch.autocast(self._device.type, torch.bfloat16, cache_enabled=False):
            found = self._model.hear(mel, frames)
        far, off = self._distances(found, *(rows.float().repeat(VIEWS, 1, 1) for rows in taught))
        loss = self.lead * far + reg.stem * off
        with torch.no_grad():
            targets, mask = x.targets.repeat(VIEWS, 1), x.mask.repeat(VIEWS, 1)
            # The decoder reads noise, of a different share in every row, so that it listens and does not recite the
            # transcripts that it has seen before. The template is never replaced.
            share = torch.rand(len(targets), 1, device=targets.device) * 2 * reg.token_noise * self.strength
            noisy = (torch.rand(targets.shape, device=targets.device) < share) & (mask > 0)
            noisy &= torch.arange(targets.shape[1], device=targets.device)[None] > 8
            read = torch.where(noisy, torch.randint_like(targets, 256, self._config.shape.vocab - 8), targets)
        with torch.autocast(self._device.type, torch.bfloat16, cache_enabled=False):
            out = self._model.read(found, x.prefix.repeat(VIEWS, 1), x.prefix_count.repeat(VIEWS), read)
        logits, wanted, weight = out.logits.float(), targets[:, 1:], mask[:, 1:]
        total = weight.sum().clamp(min=1)
        entropy = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none", label_smoothing=reg.label_smoothing)
        entropy = (entropy * weight).sum() / total
        last = out.ctc.float()
        valid = (torch.arange(last.shape[1], device=self._device)[None] < found.count[:, None]).float()
        heads, written = last.log_softmax(-1).chunk(2), logits.log_softmax(-1).chunk(2)
        apart = (divergence(*heads) * valid.chunk(2)[0]).sum() / total * 2
        apart = apart + (divergence(*written) * weight.chunk(2)[0]).sum() / total * 2
        accuracy = ((logits.detach().argmax(-1) == wanted).float() * weight).sum() / total
        loss = loss + entropy + reg.consistency * apart
        told = entropy.detach(), accuracy, apart.detach(), far.detach(), off.detach()
        return Forward(loss, last, torch.stack(told))

    def _distances(self, found: Heard, early: Tensor, late: Tensor) -> tuple[Tensor, Tensor]:
        """Give the distance of what the head says to the teacher's states `late` [B, T, d], and of what the
        convolutions give to its rows `early`. The teacher heard the rows as they were before augmentation."""
        rows = late.shape[1]
        valid = torch.arange(rows, device=late.device)[None] < found.count[:, None]
        with torch.autocast(self._device.type, torch.bfloat16, cache_enabled=False):
            said = self._model.taught(found.followed[:, :rows])
        far = F.smooth_l1_loss(said.float(), late, reduction="none").mean(-1)
        off = F.mse_loss(found.stem.float(), early, reduction="none").mean(-1)
        count = valid.sum().clamp(min=1)
        return (far * valid).sum() / count, (off * valid).sum() / count

    def _inputs(self, plan: Plan) -> Inputs:
        def send(x: object) -> Tensor:
            return torch.from_numpy(x).to(self._device, non_blocking=True)  # pyright: ignore[reportArgumentType]

        sent = plan.length, plan.prefix, plan.prefix_count, plan.targets, plan.mask
        return Inputs(assemble(self._audio, plan), *map(send, sent))

    def _eager(self, plan: Plan, x: Inputs) -> Tensor:
        out = self._forward(x)
        loss, gradient = ctc_loss(out.ctc, plan, self._config)
        self._backward(out, gradient)
        return torch.cat([out.report, loss[None]])

    def _backward(self, out: Forward, gradient: Tensor) -> None:
        """Fill in the gradients of all parameters."""
        parameters = self._optimizer.parameters
        found = torch.autograd.grad([out.loss, out.ctc], parameters, [self._one, gradient])
        torch._foreach_copy_([p.grad for p in parameters if p.grad is not None], [g.float() for g in found])

    def _capture(self, key: tuple[int, ...], plan: Plan, x: Inputs) -> None:
        static = Inputs(*(t.clone() for t in x))
        warm_up(lambda: self._eager(plan, static))
        torch.cuda.synchronize()
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(forward, pool=self._pool, capture_error_mode=CAPTURE):
            out = self._forward(static)
        self._pool = self._pool or forward.pool()
        gradient = torch.zeros_like(out.ctc)
        with torch.cuda.graph(backward, pool=self._pool, capture_error_mode=CAPTURE):
            self._backward(out, gradient)
        kept = Forward(*(t.detach() for t in out))
        self._captured[key] = (static, kept, gradient, forward, backward)

    def gradients(self, plan: Plan) -> Tensor:
        """Fill the optimiser's flat gradient, and give [cross-entropy, accuracy, consistency, distance to the states,
        distance to the rows behind the convolutions, CTC]."""
        x = self._inputs(plan)
        if not self._graphs:
            return self._eager(plan, x)
        key = (plan.seconds, plan.prefix.shape[1])
        if key not in self._captured:
            try:
                self._capture(key, plan, x)
            except RuntimeError as error:
                print(f"capture of {key} failed, going on eagerly: {error}", flush=True)
                self._graphs = False
                torch.cuda.synchronize()
                return self._eager(plan, x)
        static, out, gradient, forward, backward = self._captured[key]
        for mine, new in zip(static, x, strict=True):
            mine.copy_(new, non_blocking=True)
        forward.replay()
        loss, given = ctc_loss(out.ctc, plan, self._config)
        gradient.copy_(given)
        backward.replay()
        return torch.cat([out.report, loss[None]])
