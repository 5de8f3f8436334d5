"""Codes by search: a recording's codes changed until what the decoder makes of them is nearer to the recording.

Analysis by synthesis, as CELP coders encode. The network encoder's codes are the beginning; the decoder, its books and
the bit rate stay as they are. The sums of the acoustic books' entries are free vectors under Adam, taken through the
books straight through; the distance is the codec's own training loss, without what belongs to phones and books and
with more weight on envelopes and loudness. The semantic codebook keeps its codes: the search would hardly move it, and
the talker's meaning of it is untouched.

Contract: deterministic on a processor (on a GPU gradients are summed in varying order, so the codes may vary; the
promise about their distance holds there too). The codec should be in evaluation; its weights and their gradients are
left as they are. Gradients are kept of one stretch at a time, at most `STRETCH` frames.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from training.tts.codec import Codec
from training.tts.config import FRAME, CodecTraining
from training.tts.intelligibility import EnvelopeDistance
from training.tts.loudness import LoudnessDistance
from training.tts.spectra import SpectralDistance

STRETCH = 128  # frames changed together, 10 s: 2.5 GB of activations with the shipped decoder
LONGEST = 1500  # frames of a recording, 2 minutes: it is decoded as a whole without gradients, in 2 GB
_HISTORY = 4  # frames vocoded before a stretch, not compared: as in training
_RATE = 0.1  # of Adam, in standard deviations of the first acoustic book; falls to nothing
_BETAS = (0.8, 0.95)
_LEAST = 6  # frames: the distance of envelopes takes no less


class Found(NamedTuple):
    """codes int64 [1, K, T]; distance of what they decode to, at most `given`, that of the codes begun from."""

    codes: Tensor
    distance: float
    given: float


class Likeness(nn.Module):
    """The codec's training loss between sounds, distances of envelopes and loudness `search_envelopes` and
    `search_loudness` times as heavy beside that of spectra; one of weight 0 is not computed.
    """

    def __init__(self, training: CodecTraining) -> None:
        """Raises ValueError where all three weights are 0."""
        super().__init__()
        weighed: list[tuple[float, nn.Module]] = [
            (training.mel_weight, SpectralDistance(training.magnitude_weight)),
            (training.envelope_weight * training.search_envelopes, EnvelopeDistance()),
            (training.loudness_weight * training.search_loudness, LoudnessDistance()),
        ]
        self.weights = [weight for weight, _ in weighed if weight > 0]
        self.distances = nn.ModuleList(distance for weight, distance in weighed if weight > 0)
        if not self.weights:
            raise ValueError("codec_training.mel_weight, envelope_weight, loudness_weight: all 0, one must be above")

    def forward(self, made: Tensor, wave: Tensor) -> Tensor:
        """[1, 1, S] each -> scalar. What is shorter than `_LEAST` frames is compared with silence behind it."""
        missing = max(0, _LEAST * FRAME - wave.shape[2])
        made, wave = F.pad(made, (0, missing)), F.pad(wave, (0, missing))
        terms = (weight * one(made, wave) for weight, one in zip(self.weights, self.distances, strict=True))
        return torch.stack(list(terms)).sum()


class Search:
    """Searches codes for one codec."""

    def __init__(self, codec: Codec, training: CodecTraining, steps: int) -> None:
        """steps: how often the codes are decoded and changed, from 1; each costs a processor core 0.02 s a frame with
        the shipped decoder. Raises ValueError where that is less, or no distance has a weight.
        """
        if steps < 1:
            raise ValueError(f"search: {steps} steps, must be at least 1")
        self.steps, self.device = steps, codec.decoder.pre_conv.conv.weight.device
        self._decoder, self._shape = codec.decoder, codec.shape
        self._likeness = Likeness(training).to(self.device)

    def distance(self, codes: Tensor, wave: Tensor) -> float:
        """Of what codes int64 [1, K, T] decode to from wave float32 [1, 1, 1920 · T], as a whole."""
        with torch.no_grad():
            decoder = self._decoder
            return float(self._likeness(decoder.vocode(decoder.latents(decoder.quantizer.decode(codes))), wave))

    def __call__(self, wave: Tensor, codes: Tensor) -> Found:
        """wave float32 [1, 1, 1920 · T] and its codes int64 [1, K, T], T up to `LONGEST`, both on `device`.

        Raises:
            ValueError: shapes that do not fit each other or the codec, too many frames, a code outside its book.
        """
        books, size = self._shape.num_quantizers, self._shape.codebook_size
        frames = codes.shape[-1]
        if codes.shape != (1, books, frames) or not 1 <= frames <= LONGEST:
            raise ValueError(f"search: codes {list(codes.shape)}, must be [1, {books}, 1 to {LONGEST} frames]")
        if wave.shape != (1, 1, frames * FRAME):
            raise ValueError(f"search: wave {list(wave.shape)}, must be [1, 1, {frames * FRAME}] as its codes")
        if int(codes.min()) < 0 or int(codes.max()) >= size:
            raise ValueError(f"search: codes {int(codes.min())} to {int(codes.max())}, must lie in 0..{size - 1}")
        given, found = self.distance(codes, wave), codes.clone()
        parts = -(-frames // STRETCH)
        for i in range(parts):
            self._improve(wave, found, frames * i // parts, frames * (i + 1) // parts)
        distance = self.distance(found, wave)
        # Every stretch is heard by itself; of several together the whole has the last word.
        return Found(found, distance, given) if distance < given else Found(codes.clone(), given, given)

    def _improve(self, wave: Tensor, codes: Tensor, start: int, end: int) -> None:
        """Change codes [1, K, T] from frame `start` to `end` in place, to the nearest that were seen."""
        decoder, rest = self._decoder, self._decoder.quantizer.rvq_rest
        heard, first = wave[..., start * FRAME : end * FRAME], max(0, start - _HISTORY)
        with torch.no_grad():
            # Frames after the stretch cannot change it: the decoder looks at none of them.
            given = decoder.quantizer.decode(codes[..., :end])
            entries = rest.vq.decode(codes[:, 1:, start:end])
            before, semantic = given[..., :start], given[..., start:] - rest.output_proj(entries)
            rate = _RATE * float(rest.vq.books[0].table().std())
        free = entries.clone().requires_grad_()
        optimizer = torch.optim.Adam([free], lr=rate, betas=_BETAS)
        tried, nearest = codes[:, 1:, start:end], float("inf")
        best = tried
        for step in range(self.steps + 1):
            with torch.enable_grad():
                through = free + (entries - free).detach()
                value = torch.cat([before, semantic + rest.output_proj(through)], 2)
                made = decoder.vocode(decoder.latents(value)[..., first:])[..., (start - first) * FRAME :]
                loss = self._likeness(made, heard)
            if loss.item() < nearest:
                best, nearest = tried, loss.item()
            if step == self.steps:
                break
            (free.grad,) = torch.autograd.grad(loss, free)
            optimizer.param_groups[0]["lr"] = rate * (1 - step / (self.steps + 1))
            optimizer.step()
            with torch.no_grad():
                entries, tried, _ = rest.vq(free, None, 0.0)
        codes[:, 1:, start:end] = best
