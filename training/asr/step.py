"""One training step: augmentation, both losses, gradients. On CUDA forward, backward and update are captured graphs,
one pair a batch shape: eager, the launches of some six thousand kernels take three times longer than the kernels.

CTC stands between the two graphs, because its kernel wants the lengths on the host: the forward graph ends in the CTC
logits, the backward graph begins with the gradient of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from audio.mel_filters import HOP
from training.asr.augment import augment, mask_spectrogram, mix_style, warp_time
from training.asr.config import Config
from training.asr.encoder import token_count
from training.asr.model import Outputs, PocketASR
from training.asr.optimizer import Optimizer
from training.asr.plan import ROW, VIEWS, Plan
from training.asr.pool import assemble
from training.asr.spectrogram import LogMel
from training.learner import CAPTURE, captured, warm_up

_FRAMES = ROW // HOP  # of an encoder row
_MIDDLE = _FRAMES // 2


class Inputs(NamedTuple):
    """What a step reads, U rows before they are repeated into views."""

    samples: Tensor
    length: Tensor
    prefix: Tensor
    prefix_count: Tensor
    targets: Tensor
    mask: Tensor
    taught: Tensor


class Forward(NamedTuple):
    loss: Tensor  # [] cross-entropy, consistency, distance to the teacher
    ctc: Tensor  # [rows, T, V + 1]: last layer
    inner: Tensor  # the same of an inner layer
    report: Tensor  # [cross-entropy, accuracy, consistency, distance to the teacher]


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Symmetric KL between two log-distributions [..., C] -> [...]; each view learns from the other, not from
    itself."""
    return 0.5 * ((b.detach().exp() * (b.detach() - a)).sum(-1) + (a.detach().exp() * (a.detach() - b)).sum(-1))


def ctc_loss(last: Tensor, inner: Tensor, plan: Plan, config: Config) -> tuple[Tensor, list[Tensor]]:
    """Logits [rows, frames, classes] of the last encoder layer and of an inner one, the blank last, of a batch in its
    views -> losses per token [2]; gradients of their weighted mean at both layers' logits, for the graph that made
    them: the logits are read, never differentiated through.
    """
    weight, share = config.regularisation.ctc, config.regularisation.middle_ctc
    total = max(int(plan.ctc_count.sum()) * VIEWS, 1)
    tokens = torch.from_numpy(plan.ctc).to(last.device, non_blocking=True).repeat(VIEWS)
    counts = torch.from_numpy(plan.ctc_count).repeat(VIEWS)
    frames = token_count(torch.from_numpy(plan.length) // HOP, config.shape.chunk_frames).repeat(VIEWS)
    losses: list[Tensor] = []
    gradients: list[Tensor] = []
    for logits, part in ((last, 1 - share), (inner, share)):
        leaf, blank = logits.detach().requires_grad_(), logits.shape[-1] - 1
        scores = leaf.log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(scores, tokens, frames, counts, blank=blank, reduction="sum", zero_infinity=True)
        (gradient,) = torch.autograd.grad(loss, leaf)
        losses.append(loss.detach() / total)
        gradients.append(gradient * (weight * part / total))
    return torch.stack(losses), gradients


def _layer(layer: Callable[..., Tensor], *inputs: Any) -> Tensor:
    return layer(*inputs)


def compile_layers(model: PocketASR) -> None:
    """Fuse the elementwise work of the layers, which is more than half of an eager step. A failing compilation falls
    back."""
    torch._dynamo.config.suppress_errors = True  # pyright: ignore
    model.thinker.audio_tower.compiled = torch.compile(_layer)
    model.thinker.model.compiled = torch.compile(_layer)


class Step:
    """`gradients` captures lazily: the first batch of a shape is run eagerly a few times, then recorded. `update`
    applies the flat gradient."""

    def __init__(
        self,
        config: Config,
        model: PocketASR,
        mel: LogMel,
        optimizer: Optimizer,
        audio: Tensor,
        taught: Tensor | None = None,
    ) -> None:
        """taught: a teacher's states of all of `audio` (teacher.py), which the model has a head for."""
        self._taught = taught
        self._config, self._model, self._mel, self._optimizer, self._audio = config, model, mel, optimizer, audio
        self._device = device = audio.device
        self._graphs = device.type == "cuda"
        self.strength = torch.zeros((), device=device)
        self._captured: dict[
            tuple[int, ...], tuple[Inputs, Forward, list[Tensor], torch.cuda.CUDAGraph, torch.cuda.CUDAGraph]
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
            mel, read_at = warp_time(mel, frames, self.strength, views=VIEWS)
            mel = mask_spectrogram(mel, frames, self.strength)
            targets, mask = x.targets.repeat(VIEWS, 1), x.mask.repeat(VIEWS, 1)
            # Noise on what the decoder reads, a different share in every row, so that it listens instead of reciting
            # the transcripts it has seen before; never on the template.
            share = torch.rand(len(targets), 1, device=targets.device) * 2 * reg.token_noise * self.strength
            noisy = (torch.rand(targets.shape, device=targets.device) < share) & (mask > 0)
            noisy &= torch.arange(targets.shape[1], device=targets.device)[None] > 8
            read = torch.where(noisy, torch.randint_like(targets, 256, self._config.shape.vocab - 8), targets)
        with torch.autocast(self._device.type, torch.bfloat16, cache_enabled=False):
            out = self._model(mel, frames, x.prefix.repeat(VIEWS, 1), x.prefix_count.repeat(VIEWS), read)
        logits, wanted, weight = out.logits.float(), targets[:, 1:], mask[:, 1:]
        total = weight.sum().clamp(min=1)
        entropy = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none", label_smoothing=reg.label_smoothing)
        entropy = (entropy * weight).sum() / total
        last, middle = out.ctc.float(), out.middle_ctc.float()
        valid = (torch.arange(last.shape[1], device=self._device)[None] < out.count[:, None]).float()
        heads, texts = last.log_softmax(-1).chunk(2), logits.log_softmax(-1).chunk(2)
        apart = (divergence(*heads) * valid.chunk(2)[0]).sum() / total * 2
        apart = apart + (divergence(*texts) * weight.chunk(2)[0]).sum() / total * 2
        accuracy = ((logits.detach().argmax(-1) == wanted).float() * weight).sum() / total
        loss, far = entropy + reg.consistency * apart, torch.zeros_like(entropy)
        if self._taught is not None:
            far = self._distance(out, self._taught, x.taught.repeat(VIEWS, 1), read_at)
            loss = loss + reg.taught * far
        report = torch.stack([entropy.detach(), accuracy, apart.detach(), far.detach()])
        return Forward(loss, last, middle, report)

    def _distance(self, out: Outputs, states: Tensor, rows: Tensor, read_at: Tensor) -> Tensor:
        """Of what the head says to the teacher's states of the audio as it was before augmentation -> []. rows [B, T]:
        those of the pool (plan.py), before the pace changed; read_at: `warp_time`'s."""
        with torch.no_grad():
            from_row = (read_at[:, _MIDDLE::_FRAMES] / _FRAMES).long().clamp(max=rows.shape[1] - 1)
            rows = rows.gather(1, from_row)
            wanted = states[rows.clamp(min=0)].float()
            valid = (rows >= 0) & (torch.arange(rows.shape[1], device=rows.device)[None] < out.count[:, None])
        with torch.autocast(self._device.type, torch.bfloat16, cache_enabled=False):
            said = self._model.taught(out.states[:, : rows.shape[1]])
        apart = F.smooth_l1_loss(said.float(), wanted, reduction="none").mean(-1)
        return (apart * valid).sum() / valid.sum().clamp(min=1)

    def _inputs(self, plan: Plan) -> Inputs:
        def send(x: object) -> Tensor:
            return torch.from_numpy(x).to(self._device, non_blocking=True)  # pyright: ignore[reportArgumentType]

        sent = plan.length, plan.prefix, plan.prefix_count, plan.targets, plan.mask, plan.taught
        return Inputs(assemble(self._audio, plan), *map(send, sent))

    def _eager(self, plan: Plan, x: Inputs) -> Tensor:
        out = self._forward(x)
        loss, gradients = ctc_loss(out.ctc, out.inner, plan, self._config)
        self._backward(out, gradients)
        return torch.cat([out.report, loss])

    def _backward(self, out: Forward, gradients: list[Tensor]) -> None:
        outputs, parameters = [out.loss, out.ctc, out.inner], self._optimizer.parameters
        found = torch.autograd.grad(outputs, parameters, [self._one, *gradients])
        torch._foreach_copy_([p.grad for p in parameters], [g.float() for g in found])

    def _capture(self, key: tuple[int, ...], plan: Plan, x: Inputs) -> None:
        static = Inputs(*(t.clone() for t in x))
        warm_up(lambda: self._eager(plan, static))
        torch.cuda.synchronize()
        forward, backward = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(forward, pool=self._pool, capture_error_mode=CAPTURE):
            out = self._forward(static)
        self._pool = self._pool or forward.pool()
        gradients = [torch.zeros_like(out.ctc), torch.zeros_like(out.inner)]
        with torch.cuda.graph(backward, pool=self._pool, capture_error_mode=CAPTURE):
            self._backward(out, gradients)
        kept = Forward(*(t.detach() for t in out))
        self._captured[key] = (static, kept, gradients, forward, backward)

    def gradients(self, plan: Plan) -> Tensor:
        """Fill the optimiser's flat gradient -> [cross-entropy, accuracy, consistency, distance to the teacher, CTC,
        inner CTC]."""
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
        static, out, gradients, forward, backward = self._captured[key]
        for mine, new in zip(static, x, strict=True):
            mine.copy_(new, non_blocking=True)
        forward.replay()
        loss, found = ctc_loss(out.ctc, out.inner, plan, self._config)
        for gradient, new in zip(gradients, found, strict=True):
            gradient.copy_(new)
        backward.replay()
        return torch.cat([out.report, loss])
