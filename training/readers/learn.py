"""Training the reader model: a fixed number of seconds on one device."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from training.asr.checkpoint import save_weights
from training.asr.config import Optimisation
from training.asr.optimizer import Optimizer, averaged
from training.readers.config import Reading
from training.readers.corpus import Corpus, Painted, Timed
from training.readers.model import Reader

_REPORT = 500
_CHECKS = 8


@dataclass(frozen=True)
class Losses:
    """painted: mean square of the direction's error; timed: nats a phone."""

    painted: Tensor
    timed: Tensor


def painting_loss(model: Reader, batch: Painted, unguided: float) -> Tensor:
    """Of flow matching, on the slots that count."""
    noise = torch.randn_like(batch.slots)
    time_ = torch.randn(len(noise), device=noise.device).sigmoid()
    at = time_[:, None, None]
    style = model.style(batch.heard)
    spoken = model.spoken(batch.said)
    without = torch.rand(len(noise), 1, 1, device=noise.device) < unguided
    spoken = torch.where(without, model.unsaid, spoken)
    way = model((1 - at) * noise + at * batch.slots, time_, spoken, style, batch.mask)
    wrong = (way.float() - (batch.slots - noise)).square().mean(-1)
    return (wrong * batch.mask).sum() / batch.mask.sum()


def timing_loss(model: Reader, batch: Timed) -> Tensor:
    """Cross-entropy of the gaps."""
    logits = model.gaps(batch.phones, model.style(batch.heard), batch.mask)
    wrong = F.cross_entropy(logits.float().transpose(1, 2), batch.gaps, reduction="none")
    return (wrong * batch.mask).sum() / batch.mask.sum()


def _losses(model: Reader, corpus: Corpus, unguided: float) -> Losses:
    with torch.autocast(model.mean.device.type, torch.bfloat16):
        return Losses(painting_loss(model, corpus.painted(), unguided), timing_loss(model, corpus.timed()))


@torch.no_grad()
def check(model: Reader, corpus: Corpus) -> tuple[float, float]:
    """Losses on clips that nothing was learnt from."""
    compiled, model.body.compiled = model.body.compiled, None  # not worth further shapes
    model.eval()
    found = [_losses(model, corpus, 0.0) for _ in range(_CHECKS)]
    model.train()
    model.body.compiled = compiled
    painted, timed = (torch.stack([getattr(x, k) for x in found]).mean() for k in ("painted", "timed"))
    return float(painted), float(timed)


def rate_at(progress: float, step: int, optimisation: Optimisation) -> float:
    """Share of the peak rate: warm-up by steps, constant, then linear to the end."""
    warm = min(1.0, (step + 1) / optimisation.warmup_steps)
    late = max(0.0, progress - optimisation.constant_until) / (1 - optimisation.constant_until)
    return warm * (1 - late * (1 - optimisation.final_rate))


def learn(model: Reader, corpus: Corpus, held_out: Corpus | None, reading: Reading, seconds: float, out: Path) -> None:
    """Train `model`; its averaged weights end up in it and, in parts, in `out`."""
    model.mean.copy_(corpus.normal[0])
    model.spread.copy_(corpus.normal[1])
    optimizer = Optimizer(model, reading.optimisation, reading.weight_decay)
    began = time.monotonic()
    step, sums = 0, torch.zeros(2, device=model.mean.device)
    model.train()
    while (spent := time.monotonic() - began) < seconds:
        optimizer.rate.fill_(rate_at(spent / seconds, step, reading.optimisation))
        losses = _losses(model, corpus, reading.batches.unguided)
        gradients = torch.autograd.grad(losses.painted + 0.1 * losses.timed, optimizer.parameters)
        torch._foreach_copy_(optimizer.views, [g.float() for g in gradients])  # pyright: ignore[reportPrivateUsage]
        optimizer.step()
        step += 1
        if step == 1000:
            optimizer.restart_average()
        sums += torch.stack([losses.painted.detach(), losses.timed.detach()])
        if step % _REPORT == 0 or step in (10, 100):
            count = _REPORT if step % _REPORT == 0 else step
            line = " ".join(f"{x / count:.4f}" for x in sums.tolist())
            if step % _REPORT == 0:
                sums.zero_()
            kept = "" if held_out is None or step % (4 * _REPORT) else f", held out {check(model, held_out)}"
            print(f"[{time.monotonic() - began:7.1f} s] step {step} {line}{kept}", flush=True)
    model.load_state_dict(averaged(model, optimizer.average), strict=False)
    if held_out is not None:
        print(f"[{time.monotonic() - began:7.1f} s] step {step}, averaged, held out {check(model, held_out)}", flush=True)
    save_weights(model.state_dict(), out, parts=True)
