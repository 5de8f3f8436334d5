"""Training the reader model: for a number of seconds what paints, then for a number of steps what times."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.asr.checkpoint import save_weights
from training.asr.config import Optimisation
from training.asr.optimizer import Optimizer, averaged
from training.readers.config import Reading
from training.readers.corpus import Corpus, Painted, Timed
from training.readers.model import Reader

_REPORT = 500
_CHECKS = 8
_AVERAGE_FROM = 0.15  # of the run: the average forgets what was before
_TIMING_AVERAGE = 0.99  # a run of some hundred steps


def painting_loss(model: Reader, batch: Painted, unguided: float) -> Tensor:
    """Of flow matching: the mean square of the direction's error, on the slots that count."""
    noise = torch.randn_like(batch.slots)
    now = torch.randn(len(noise), device=noise.device).sigmoid()
    at = now[:, None, None]
    style = model.style(batch.heard)
    spoken = model.spoken(batch.said)
    without = torch.rand(len(noise), 1, 1, device=noise.device) < unguided
    spoken = torch.where(without, model.unsaid, spoken)
    way = model((1 - at) * noise + at * batch.slots, now, spoken, style, batch.mask)
    wrong = (way.float() - (batch.slots - noise)).square().mean(-1)
    return (wrong * batch.mask).sum() / batch.mask.sum()


def timing_loss(model: Reader, batch: Timed) -> Tensor:
    """Cross-entropy of the gaps, in nats a phone; styles are as they are."""
    with torch.no_grad():
        style = model.style(batch.heard)
    logits = model.timer(batch.phones, style, batch.mask)
    wrong = F.cross_entropy(logits.float().transpose(1, 2), batch.gaps, reduction="none")
    return (wrong * batch.mask).sum() / batch.mask.sum()


@torch.no_grad()
def check(model: Reader, loss: Callable[[], Tensor]) -> float:
    """A loss on clips that nothing was learnt from."""
    compiled, model.body.compiled = model.body.compiled, None  # not worth further shapes
    model.eval()
    with torch.autocast(model.mean.device.type, torch.bfloat16):
        found = float(torch.stack([loss() for _ in range(_CHECKS)]).mean())
    model.train()
    model.body.compiled = compiled
    return found


def rate_at(progress: float, step: int, optimisation: Optimisation) -> float:
    """Share of the peak rate: warm-up by steps, constant, then linear to the end."""
    warm = min(1.0, (step + 1) / optimisation.warmup_steps)
    late = max(0.0, progress - optimisation.constant_until) / (1 - optimisation.constant_until)
    return warm * (1 - late * (1 - optimisation.final_rate))


def _fit(
    part: nn.Module,
    optimisation: Optimisation,
    weight_decay: float,
    progress: Callable[[int], float],
    loss: Callable[[], Tensor],
    held_out: Callable[[], float],
) -> None:
    """Train the parameters of `part` that require a gradient until `progress` of the step is 1; they are their average
    then."""
    optimizer = Optimizer(part, optimisation, weight_decay)
    device = optimizer.gradient.device
    began, step, restarted = time.monotonic(), 0, False
    total = torch.zeros((), device=device)

    def say(losses: str) -> None:
        print(f"[{time.monotonic() - began:7.1f} s] step {step} {losses}, held out {held_out():.4f}", flush=True)

    while (now := progress(step)) < 1:
        if now >= _AVERAGE_FROM and not restarted:
            optimizer.restart_average()
            restarted = True
        optimizer.rate.fill_(rate_at(now, step, optimisation))
        with torch.autocast(device.type, torch.bfloat16):
            found = loss()
        gradients = torch.autograd.grad(found, optimizer.parameters)
        torch._foreach_copy_(optimizer.views, [g.float() for g in gradients])  # pyright: ignore[reportPrivateUsage]
        optimizer.step()
        step += 1
        total += found.detach()
        if step % _REPORT == 0:
            say(f"{float(total) / _REPORT:.4f}")
            total.zero_()
    part.load_state_dict(averaged(part, optimizer.average), strict=False)
    say("averaged")


def learn(
    model: Reader,
    corpus: Corpus,
    held_out: Corpus,
    reading: Reading,
    seconds: float,
    out: Path,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Train `model`; its averaged weights end up in it and, in parts, in `out`. 0 seconds: the timing network alone.
    `now`: the clock that ends the painting, in seconds."""
    model.train()
    if seconds:
        model.mean.copy_(corpus.normal[0])
        model.spread.copy_(corpus.normal[1])
        model.timer.requires_grad_(False)
        began = now()
        _fit(
            model,
            reading.optimisation,
            reading.weight_decay,
            lambda _: (now() - began) / seconds,
            lambda: painting_loss(model, corpus.painted(), reading.batches.unguided),
            lambda: check(model, lambda: painting_loss(model, held_out.painted(), 0.0)),
        )
    model.timer.requires_grad_(True)
    _fit(
        model.timer,
        replace(reading.optimisation, average=_TIMING_AVERAGE),
        reading.weight_decay,
        lambda step: step / reading.timing_steps,
        lambda: timing_loss(model, corpus.timed()),
        lambda: check(model, lambda: timing_loss(model, held_out.timed())),
    )
    save_weights(model.state_dict(), out, parts=True)
