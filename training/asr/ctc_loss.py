"""The CTC losses of a step: tokens at the last encoder layer and at an inner one, and their gradients.

Contract: the logits are read, never differentiated through: what comes back are gradients at the logits, which the
caller hands to the graph that made them. PyTorch's kernel wants the lengths on the host, so this part of a step is
never captured.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.asr.config import Config
from training.asr.encoder import token_count
from training.asr.plan import Plan
from training.asr.spectrogram import HOP


class CtcLoss:
    """Of batches in as many views as the configuration says."""

    def __init__(self, config: Config, device: torch.device) -> None:
        self._share, self._views = config.regularisation.middle_ctc, config.batches.views
        self._chunk, self._device = config.shape.chunk_frames, device

    def __call__(self, last: Tensor, inner: Tensor, plan: Plan, weight: float) -> tuple[Tensor, list[Tensor]]:
        """Logits [rows, frames, classes], the blank last, of both layers -> losses per token [2]; gradients of
        `weight` times their weighted mean at both layers' logits.
        """
        rows = token_count(torch.from_numpy(plan.length) // HOP, self._chunk)
        total = max(int(plan.ctc_count.sum()) * self._views, 1)
        losses: list[Tensor] = []
        gradients: list[Tensor] = []
        for logits, share in ((last, 1 - self._share), (inner, self._share)):
            loss, gradient = self._one(logits, plan.ctc, plan.ctc_count, rows)
            losses.append(loss / total)
            gradients.append(gradient * (weight * share / total))
        return torch.stack(losses), gradients

    def _one(
        self, logits: Tensor, tokens: NDArray[np.int64], counts: NDArray[np.int64], frames: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Summed loss and its gradient at logits [R, T, classes]."""
        leaf = logits.detach().requires_grad_()
        scores = leaf.log_softmax(-1).transpose(0, 1)
        real = max(int(counts.sum()), 1)
        loss = F.ctc_loss(
            scores,
            torch.from_numpy(tokens[:real]).to(self._device, non_blocking=True).repeat(self._views),
            frames.repeat(self._views),
            torch.from_numpy(counts).repeat(self._views),
            blank=logits.shape[-1] - 1,
            reduction="sum",
            zero_infinity=True,
        )
        (gradient,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), gradient
