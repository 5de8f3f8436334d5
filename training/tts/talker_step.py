"""One step of talker, predictor and speaker encoder: the gradients are found by one CUDA graph for each length of rows,
then the weights are updated."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from training.learner import Learner, Step, autocast
from training.qwen3 import Probe
from training.ranks import Ranks
from training.tts.config import TalkerTraining
from training.tts.rows import IGNORE, Batch, Bucket
from training.tts.talker import ENCODER, Talker

MEASURES = (
    "cross-entropy 0", "cross-entropy rest", "guide", "accuracy 0", "accuracy 1", "accuracy rest", "gradient norm",
)  # fmt: skip
BETAS = (0.9, 0.95)
"""AdamW's, as they are usual for language models."""
# How far from the diagonal attention is free: so much of the text's length and so many tokens more.
_GUIDE_WIDTH, _GUIDE_MARGIN = 0.08, 1.5


class Losses(NamedTuple):
    """first, rest, guide: scalars, of which rest is the mean of the books after the first; hits: float32 [K], the
    accuracy of every book."""

    first: Tensor
    rest: Tensor
    guide: Tensor
    hits: Tensor


def guide_loss(weights: Tensor, batch: Batch) -> Tensor:
    """Tell how much of the attention [B, S, S] that speech positions pay to text lies away from the diagonal."""
    at = torch.arange(weights.shape[-1], device=weights.device).float()
    begin, end = batch.span[:, :1], batch.span[:, 1:]
    in_text = (at >= begin) & (at < end)
    width = _GUIDE_WIDTH * (end - begin) + _GUIDE_MARGIN
    away = 1 - torch.exp(-((at - batch.text_at[..., None]) / width[..., None]).square() / 2)
    counted = (batch.text_at >= 0).float()
    penalty = torch.where(in_text[:, None], away, torch.ones_like(away))
    return ((weights * penalty).sum(-1) * counted).sum() / counted.sum().clamp(min=1)


def embed(talker: Talker, batch: Batch, given: Tensor, voices: Tensor | None) -> Tensor:
    """Give the input [B, S, hidden] of rows whose codes are `given`, int64 [B, S, K]. voices: [C, hidden] of the cloned
    rows."""
    spoken = batch.codes[..., :1] >= 0
    x = talker.embed_text(batch.text) + talker.model.codec_embedding(given[..., 0].clamp(min=0)) * spoken
    x = x + talker.embed_rest(given[..., 1:]) * batch.frame[..., None]
    if voices is None:
        return x
    return x + torch.zeros_like(x).index_put((batch.cloned, batch.slot[batch.cloned]), voices.to(x.dtype))


def heard_voices(talker: Talker, batch: Batch, narrow: float = 0.0) -> Tensor | None:
    """Give the voices of the cloned rows [C, hidden]; None where there are none."""
    return talker.voices(batch.heard, narrow) if len(batch.cloned) else None


@torch.no_grad()
def with_own(
    talker: Talker, batch: Batch, given: Tensor, voices: Tensor | None, share: Tensor, first_share: float
) -> Tensor:
    """Give `given` int64 [B, S, K] with the model's own likeliest codes in some frames.

    They stand in a `share` (float32 [R], R <= B) of the frames of the first R rows: books 1..K-1, and in `first_share`
    of those frames codebook 0 too. The talker looks back on such codes when it speaks; the recorded codes alone would
    teach it to rely on what it will never see.
    """
    rows, (_, size, books) = len(share), given.shape
    trained = talker.training
    talker.eval()
    hidden = talker.model(embed(talker, batch, given, voices)[:rows])[:, :-1]
    own = torch.rand(rows, size - 1, device=given.device) < share[:, None]
    own &= batch.frame[:rows, 1:]
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


def losses(
    talker: Talker,
    batch: Batch,
    training: TalkerTraining,
    *,
    noise: bool,
    own: Tensor | None = None,
    voices: Tensor | None = None,
) -> Losses:
    """Give the losses against the recorded codes. noise: replace input codes at random and drop parts of the input, as
    training does; own: shares of the frames that hold the model's own codes, as `with_own` takes them (None:
    teacher-forced); voices: [C, hidden] of the cloned rows, where they are known (None: they are heard)."""
    codes = given = batch.codes
    if noise:
        share = training.code_noise * 2 * torch.rand(codes.shape[0], 1, 1, device=codes.device)
        bad = (torch.rand(codes.shape, device=codes.device) < share) & batch.frame[..., None]
        given = torch.where(bad, torch.randint(0, talker.size, codes.shape, device=codes.device), codes)
    if voices is None:
        voices = heard_voices(talker, batch, training.narrow if noise else 0.0)
    if own is not None:
        given = with_own(talker, batch, given, voices, own, training.own_first if noise else 0.0)
    x = embed(talker, batch, given, voices)
    probe = Probe()
    hidden = talker.model(F.dropout(x, training.dropout, noise), probes={training.guide_layer: probe})
    logits = talker.codec_head(hidden).float()
    first = F.cross_entropy(logits.flatten(0, 1), batch.label.flatten(), ignore_index=IGNORE)
    target = codes[:, 1:].flatten(0, 1)[batch.chosen]
    predicted = talker.predict(hidden[:, :-1].flatten(0, 1)[batch.chosen], target).float()
    rest = F.cross_entropy(predicted.flatten(0, 1), target[:, 1:].flatten())
    known = batch.label != IGNORE
    hit = ((logits.argmax(-1) == batch.label) & known).sum() / known.sum()
    hits = torch.cat([hit[None].float(), (predicted.argmax(-1) == target[:, 1:]).float().mean(0)])
    return Losses(first, rest, guide_loss(probe.weights[0], batch), hits.detach())


class TalkerStep(Step):
    """The learner and the captured steps of a run, one for each bucket."""

    def __init__(self, talker: Talker, training: TalkerTraining, ranks: Ranks) -> None:
        device = ranks.device
        groups: list[dict[str, Any]] = []
        for encoder, pace in ((False, 1.0), (True, training.encoder_pace)):
            part = [p for name, p in talker.named_parameters() if name.startswith(ENCODER) == encoder]
            for matrices, decay in ((True, training.weight_decay), (False, 0.0)):
                chosen = [p for p in part if (p.dim() > 1) == matrices]
                groups.append({"params": chosen, "weight_decay": decay, "pace": pace})
        parts = {"talker": talker, "optimizer": Learner(groups, device, BETAS, training.clip)}
        super().__init__(ranks, MEASURES, parts)
        self.talker, self.training = talker, training
        self.guide_weight = torch.ones((), device=device)
        # At most such a share of a row's frames holds the model's own codes.
        self.own_share = torch.zeros((), device=device)
        self._gradients: dict[int, Callable[[], None]] = {}

    def begin(self, buckets: Sequence[Bucket]) -> None:
        """Make the steps."""
        # The longest comes first, because its memory serves the shorter ones.
        for bucket in sorted(buckets, key=lambda b: -b.length):
            self._gradients[bucket.length] = self.finding(partial(bucket.draw, self.training), self._find)
        self._learn = self.learning()

    def run(self, bucket: Bucket) -> None:
        """Make one step on rows drawn from `bucket`."""
        self._gradients[bucket.length]()
        self._learn()

    def _find(self, *tensors: Tensor) -> None:
        """Find the gradients, and note what is measured."""
        batch = Batch(*tensors)
        rows = max(1, round(self.training.own_rows * len(batch.text)))
        own = self.own_share * torch.rand(rows, device=self.device)
        with autocast(self.device):
            found = losses(self.talker, batch, self.training, noise=True, own=own)
            loss = found.first + found.rest + self.guide_weight * found.guide
        loss.backward()
        self.measure(found.first, found.rest, found.guide, *found.hits[:2], found.hits[1:].mean())
