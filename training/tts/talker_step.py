"""One optimisation step of talker and predictor, as one CUDA graph a bucket length."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.qwen3 import Probe
from training.tts.config import TalkerTraining
from training.tts.graph import adamw, apply, autocast, captured, set_rate
from training.tts.prompt import IGNORE
from training.tts.rows import Batch, Bucket
from training.tts.talker import Talker

MEASURES = (
    "cross-entropy 0", "cross-entropy rest", "guide", "gradient norm", "accuracy 0", "accuracy 1", "accuracy rest",
)  # fmt: skip
_BETAS = (0.9, 0.95)
_GUIDE_WIDTH, _GUIDE_MARGIN = 0.08, 1.5  # of the text's length, tokens: how far from the diagonal attention is free


class Losses(NamedTuple):
    """first, rest, guide: scalars; rest: mean of the books after the first; hits float32 [K]: accuracy of every
    book.
    """

    first: Tensor
    rest: Tensor
    guide: Tensor
    hits: Tensor


def guide_loss(weights: Tensor, batch: Batch) -> Tensor:
    """How much of the attention [B, S, S] of speech positions on text lies away from the diagonal."""
    at = torch.arange(weights.shape[-1], device=weights.device).float()
    begin, end = batch.span[:, :1], batch.span[:, 1:]
    in_text = (at >= begin) & (at < end)
    width = _GUIDE_WIDTH * (end - begin) + _GUIDE_MARGIN
    away = 1 - torch.exp(-((at - batch.text_at[..., None]) / width[..., None]).square() / 2)
    counted = (batch.text_at >= 0).float()
    penalty = torch.where(in_text[:, None], away, torch.ones_like(away))
    return ((weights * penalty).sum(-1) * counted).sum() / counted.sum().clamp(min=1)


def embed(talker: Talker, batch: Batch, given: Tensor) -> Tensor:
    """Input [B, S, hidden] of rows whose codes are `given`, int64 [B, S, K]."""
    spoken = (batch.codec >= 0)[..., None]
    x = talker.embed_text(batch.text) + talker.model.codec_embedding(given[..., 0].clamp(min=0)) * spoken
    return x + talker.embed_rest(given[..., 1:]) * batch.frame[..., None]


@torch.no_grad()
def with_own(talker: Talker, batch: Batch, given: Tensor, share: Tensor, first_share: float) -> Tensor:
    """`given` int64 [B, S, K], where the model's own likeliest codes stand in a `share` (float32 [R], R <= B) of the
    frames of the first R rows: books 1..K-1, in `first_share` of those frames codebook 0 too. It is what the talker
    looks back on when it speaks; the recorded codes alone would teach it to rely on what it will never see.
    """
    rows, (_, size, books) = len(share), given.shape
    part = Batch(*(t if t is batch.chosen else t[:rows] for t in batch))
    trained = talker.training
    talker.eval()
    hidden = talker.backbone(embed(talker, part, given[:rows]))[:, :-1]
    own = torch.rand(rows, size - 1, device=given.device) < share[:, None]
    own &= part.frame[:, 1:]
    first = given[:rows, 1:, 0]
    if first_share:
        guess = talker.codec_head(hidden)[..., : talker.size].argmax(-1)
        first = torch.where(own & (torch.rand_like(own, dtype=torch.float32) < first_share), guess, first)
    rest = talker.likeliest(hidden.flatten(0, 1), first.clamp(min=0).flatten()).view(rows, size - 1, books - 1)
    talker.train(trained)
    made = torch.where(own[..., None], torch.cat([first[..., None], rest], -1), given[:rows, 1:])
    changed = given.clone()
    changed[:rows, 1:] = made
    return changed


def losses(talker: Talker, batch: Batch, training: TalkerTraining, *, noise: bool, own: Tensor | None = None) -> Losses:
    """Losses against the recorded codes. noise: replace input codes at random and drop parts of the input, as training
    does. own: shares of the frames that hold the model's own codes, as `with_own` takes them (None: teacher-forced).
    """
    codes = torch.cat([batch.codec[..., None], batch.rest], -1)
    given = codes
    if noise:
        share = training.code_noise * 2 * torch.rand(codes.shape[0], 1, 1, device=codes.device)
        bad = (torch.rand(codes.shape, device=codes.device) < share) & batch.frame[..., None]
        given = torch.where(bad, torch.randint(0, talker.size, codes.shape, device=codes.device), codes)
    if own is not None:
        given = with_own(talker, batch, given, own, training.own_first if noise else 0.0)
    x = embed(talker, batch, given)
    probe = Probe()
    hidden = talker.backbone(F.dropout(x, training.dropout, noise), probe, training.guide_layer)
    logits = talker.codec_head(hidden).float()
    first = F.cross_entropy(logits.flatten(0, 1), batch.label.flatten(), ignore_index=IGNORE)
    target = codes[:, 1:].flatten(0, 1)[batch.chosen]
    predicted = talker.predict(hidden[:, :-1].flatten(0, 1)[batch.chosen], target).float()
    rest = F.cross_entropy(predicted.flatten(0, 1), target[:, 1:].flatten())
    known = batch.label != IGNORE
    hit = ((logits.argmax(-1) == batch.label) & known).sum() / known.sum()
    hits = torch.cat([hit[None].float(), (predicted.argmax(-1) == target[:, 1:]).float().mean(0)])
    return Losses(first, rest, guide_loss(probe.weights[0], batch), hits.detach())


class TalkerStep:
    """Optimiser and captured steps of a run, one a bucket."""

    def __init__(
        self,
        talker: Talker,
        training: TalkerTraining,
        buckets: list[Bucket],
        device: torch.device,
        *,
        graphs: bool,
        state: dict[str, Any] | None = None,
    ) -> None:
        """state: what `state` gave in a run before; it is taken before anything is captured."""
        self.talker, self.training, self.device, self._graphs = talker, training, device, graphs
        matrices = [p for p in talker.parameters() if p.dim() > 1]
        vectors = [p for p in talker.parameters() if p.dim() <= 1]
        groups: list[dict[str, object]] = [
            {"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}
        ]  # fmt: skip
        self.optimizer = adamw(groups, device, _BETAS, training.weight_decay)
        if state is not None:
            talker.load_state_dict(state["talker"])
            self.optimizer.load_state_dict(state["optimizer"])
        self.guide_weight = torch.ones((), device=device)
        self.own_share = torch.zeros((), device=device)  # at most so many frames of a row hold the model's own codes
        self.measures = torch.zeros(len(MEASURES), device=device)
        self.rate(1e-5)
        self._pool: object = None
        # The longest first: its memory serves the shorter ones.
        self._steps: dict[int, tuple[Batch, Callable[[], None]]] = {}
        for bucket in sorted(buckets, key=lambda b: -b.length):
            self._steps[bucket.length] = self._capture(bucket)

    def rate(self, value: float) -> None:
        set_rate(self.optimizer, value)

    def run(self, bucket: Bucket) -> None:
        """One step on rows drawn from `bucket`."""
        batch, step = self._steps[bucket.length]
        batch.copy_(self._draw(bucket))
        step()

    def state(self) -> dict[str, Any]:
        """Everything that steps change."""
        return {"talker": self.talker.state_dict(), "optimizer": self.optimizer.state_dict()}

    def _draw(self, bucket: Bucket) -> Batch:
        return bucket.draw(self.training.positions, self.training.predictor_frames)

    def _capture(self, bucket: Bucket) -> tuple[Batch, Callable[[], None]]:
        batch = Batch(*(t.clone() for t in self._draw(bucket)))

        def fill() -> None:
            batch.copy_(self._draw(bucket))

        step, pool = captured(lambda: self._step(batch), fill, self.device, graphs=self._graphs, pool=self._pool)
        self._pool = self._pool or pool
        return batch, step

    def _step(self, batch: Batch) -> None:
        rows = max(1, round(self.training.own_rows * len(batch.text)))
        own = self.own_share * torch.rand(rows, device=self.device)
        with autocast(self.device):
            found = losses(self.talker, batch, self.training, noise=True, own=own)
            loss = found.first + found.rest + self.guide_weight * found.guide
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = apply(self.optimizer, self.training.clip)
        values = (found.first, found.rest, found.guide, norm, *found.hits[:2], found.hits[1:].mean())
        for i, value in enumerate(values):
            self.measures[i] = value.detach()
