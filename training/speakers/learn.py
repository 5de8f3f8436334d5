"""Learning to tell voices apart: crops of readers become rows of the stem once, and the head learns on those.

Contract: `crops` gives the rows of clean and rough crops of each reader; `learn` gives the head that parts them, by an
additive angular margin (Deng et al. 2019), a class for each reader.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.shards import RATE, Clip
from training.speakers.encoder import SAMPLES, WIDTH, Front, Head

Floats = NDArray[np.float32]
# Corpora whose labels mix several people.
_MIXED = ("LibriSpeech (subset", "Picovoice")
# One speaker in so many is kept for choosing, and never learned from.
_HELD = 9
# Clips that a speaker must have, and the most that are taken of one.
_FEWEST, _MOST = 3, 9
# What is added to the covariance within speakers, of its mean variance: there are few crops for so many numbers.
_RIDGE = 0.3
# The scale of the cosines and the margin, in radians.
_SCALE, _MARGIN = 24.0, 0.2


@dataclass(frozen=True)
class Rows:
    """rows: float16 [n, T, 384]; owners: the speaker of each; corpora: where each comes from."""

    rows: NDArray[np.float16]
    owners: Sequence[str]
    corpora: Sequence[str]


def held(speaker: str) -> bool:
    """Say whether a speaker is kept for choosing."""
    return zlib.crc32(speaker.encode()) % _HELD == 0


def crops(clips: Iterable[Clip], front: Front, stem: Path, *, kept: bool, seed: int = 11) -> Rows:
    """Give the rows of crops of 1.5 s: of readers to learn from a clean and a rough one of each clip, of those that
    are `kept` a clean one."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(stem))
    random = np.random.default_rng(seed)
    of: dict[str, list[Clip]] = {}
    for clip in clips:
        if clip.speaker and not clip.corpus.startswith(_MIXED) and len(clip.samples) >= RATE:
            of.setdefault(clip.speaker, []).append(clip)
    found: list[NDArray[Any]] = []
    owners: list[str] = []
    corpora: list[str] = []
    for speaker in sorted(of):
        if held(speaker) != kept or len(of[speaker]) < _FEWEST:
            continue
        for place in random.permutation(len(of[speaker]))[:_MOST]:
            clip = of[speaker][place]
            for roughly in (False,) if kept else (False, True):
                crop = _crop(clip.samples, random)
                mels = front(torch.from_numpy(rough(crop, random) if roughly else crop)[None])
                found.append(session.run(None, {"mel": mels.numpy()})[0][0].astype(np.float16))
                owners.append(speaker)
                corpora.append(clip.source)
    return Rows(np.stack(found), owners, corpora)


def _crop(samples: NDArray[np.int16], random: np.random.Generator) -> Floats:
    wave = samples.astype(np.float32) / 32768
    if len(wave) < SAMPLES:
        return np.resize(wave, SAMPLES)
    at = int(random.integers(0, len(wave) - SAMPLES + 1))
    return wave[at : at + SAMPLES]


def rough(wave: Floats, random: np.random.Generator) -> Floats:
    """Give a crop as a microphone in a room may hear it: with an echo, and over noise of some colour."""
    out = wave.astype(np.float64)
    if random.random() < 0.6:
        size = int(random.uniform(0.15, 0.7) * RATE)
        echo = random.standard_normal(size) * 10 ** (-3 * np.arange(size) / size)
        echo *= 10 ** (-random.uniform(-1, 10) / 20) / np.sqrt(np.sum(echo**2))
        echo[0] = 1
        whole = len(out) + size
        out = np.fft.irfft(np.fft.rfft(out, whole) * np.fft.rfft(echo, whole), whole)[: len(wave)]
    if random.random() < 0.7:
        colour = np.fft.rfft(random.standard_normal(len(out)))
        colour *= (np.maximum(np.arange(len(colour)), 10) / 100) ** -random.uniform(0, 1)
        noise = np.fft.irfft(colour, len(out))
        level = np.sqrt(np.mean(out**2) / np.mean(noise**2)) * 10 ** (-random.uniform(8, 35) / 20)
        out = out + noise * level
    return out.astype(np.float32)


def begun(known: Rows) -> Head:
    """Give a head that parts speakers by linear discriminants of the rows' mean and deviation, in closed form; its
    layers count for nothing yet."""
    head = Head()
    rows = torch.from_numpy(known.rows).float()
    with torch.no_grad():
        head.scale.running_mean = rows.mean((0, 1))
        head.scale.running_var = rows.var((0, 1))
        head.eval()
        x = torch.cat([head.plain(part) for part in rows.split(512)])
        spread = x.std(0)
        x = (x - x.mean(0)) / spread
        owners = np.array(known.owners)
        within, middles = torch.zeros(x.shape[1], x.shape[1]), list[Tensor]()
        for name in sorted(set(known.owners)):
            mine = x[torch.from_numpy(owners == name)]
            middles.append(mine.mean(0))
            within += (mine - mine.mean(0)).T @ (mine - mine.mean(0)) / len(x)
        ridge = _RIDGE * within.trace() / len(within) * torch.eye(len(within))
        white = torch.linalg.cholesky(torch.linalg.inv(within + ridge))
        _, axes = torch.linalg.eigh(torch.cov((torch.stack(middles) @ white).T))
        head.last.weight.zero_()
        head.last.bias.zero_()
        size = x.shape[1]
        head.last.weight[:, -size:] = (white @ axes[:, -WIDTH:]).T
        head.stats.running_mean[-size:] = torch.cat([head.plain(part) for part in rows.split(512)]).mean(0)
        head.stats.running_var[-size:] = spread.square()
    return head


def learn(known: Rows, epochs: int, seed: int = 3) -> Head:
    """Give the head that has learned to part the speakers of `known`."""
    torch.manual_seed(seed)
    names = sorted(set(known.owners))
    rows = torch.from_numpy(known.rows)
    labels = torch.tensor([names.index(owner) for owner in known.owners])
    head = begun(known)
    classes = torch.nn.Parameter(torch.randn(len(names), WIDTH) * 0.1)
    optimizer = torch.optim.AdamW([*head.parameters(), classes], lr=2e-3, weight_decay=0.1)
    batch = 128
    steps = epochs * (len(rows) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    head.train()
    for step in range(steps):
        if step % (len(rows) // batch) == 0:
            order = torch.randperm(len(rows))
        at = step % (len(rows) // batch) * batch
        mine = order[at : at + batch]
        x = rows[mine].float()
        # A stretch of the crop alone, so that the head hears none twice alike.
        width = int(torch.randint(10, x.shape[1] + 1, ()))
        begin = int(torch.randint(0, x.shape[1] - width + 1, ()))
        x = x[:, begin : begin + width]
        with torch.autocast("cpu", torch.bfloat16):
            voices = head(x)
        cosines = F.normalize(voices.float(), dim=1) @ F.normalize(classes, dim=1).T
        own = labels[mine][:, None]
        angle = torch.acos(cosines.gather(1, own).clamp(-1 + 1e-6, 1 - 1e-6))
        logits = _SCALE * cosines.scatter(1, own, torch.cos(angle + _MARGIN))
        loss = F.cross_entropy(logits, labels[mine], label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % (len(rows) // batch) == 0:
            print(f"epoch {(step + 1) // (len(rows) // batch)}: loss {loss.item():.3f}", flush=True)
    return head.eval()


def prints(head: Head, rows: NDArray[np.float16]) -> Floats:
    """Give the voice prints of rows, each of length 1."""
    with torch.inference_mode():
        return F.normalize(head(torch.from_numpy(rows).float()), dim=1).numpy()


def equal_error_rate(voices: Floats, owners: Sequence[str], corpora: Sequence[str]) -> float:
    """Give the rate at which as many pairs of one speaker are parted as pairs of two are taken for one; only pairs of
    one corpus count, whose microphones are alike."""
    cosines = voices @ voices.T
    who, where = np.array(owners), np.array(corpora)
    first, second = np.triu_indices(len(who), 1)
    pairs = where[first] == where[second]
    same, score = (who[first] == who[second])[pairs], cosines[first, second][pairs]
    same = same[np.argsort(-score)]
    accepted, refused = np.cumsum(~same) / max(int((~same).sum()), 1), 1 - np.cumsum(same) / max(int(same.sum()), 1)
    at = int(np.argmin(np.abs(accepted - refused)))
    return float((accepted[at] + refused[at]) / 2)
