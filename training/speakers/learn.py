"""Learning to tell voices apart by short and rough speech: the network learns from what it makes of long clean speech.

Contract: `taught` gives the voice of every clip, which the published network hears in all of it, moved towards the
reader's voice where the reader is known. `learn` gives the network that hears nearly that in 1.5 s, in a room, over
noise or another voice. It also parts the readers by an additive angular margin (Deng et al. 2019). Each batch is of one
corpus, so that microphones tell nothing.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from training.shards import RATE, Clip
from training.speakers.encoder import SAMPLES, WIDTH, Encoder, Front

Floats = NDArray[np.float32]
# Corpora whose labels mix several people: their clips teach, their labels do not.
_MIXED = ("librispeech (subset", "picovoice", "african storybook", "common_voice_v1", "common voice v1")
# One speaker in so many is kept for choosing, and never learned from.
_HELD = 9
# Clips that a speaker must have, and the most that are taken of one, where voices are compared.
_FEWEST, _MOST = 3, 9
# How fast clips are played, each as other voices than those of the clips themselves.
_SPEEDS = (1.0, 8 / 9, 9 / 8)
# Clips are filled up to a multiple of so many samples, which at each speed are a whole number: few sizes are left then.
_BLOCK = 7200
# The most samples that the published network hears of a clip at once.
_LONGEST = 6 * RATE
# The scale of the cosines and the margin, in radians.
_SCALE, _MARGIN = 24.0, 0.2


def held(speaker: str) -> bool:
    """Say whether a speaker is kept for choosing."""
    return bool(speaker) and zlib.crc32(speaker.encode()) % _HELD == 0


def reader(clip: Clip) -> str:
    """Give who reads a clip, "" where the label may be of several people."""
    return "" if clip.corpus.lower().startswith(_MIXED) else clip.speaker


@dataclass(frozen=True)
class Voices:
    """Clips on one device. samples: int16, all clips in turn; starts and lengths of each; teach: float32 [n, WIDTH];
    owners: the number of the reader of each, -1 where nobody knows; corpora: the number of where each comes from."""

    samples: Tensor
    starts: Tensor
    lengths: Tensor
    teach: Tensor
    owners: Tensor
    corpora: Tensor


def faster(samples: Tensor, speed: float) -> Tensor:
    """Play float32 samples at another speed, by which the voice's pitch changes too."""
    whole = -(-len(samples) // _BLOCK) * _BLOCK
    size = round(whole / speed)
    spectrum = torch.fft.rfft(samples, whole)
    return (torch.fft.irfft(spectrum[: size // 2 + 1], n=size) * (size / whole))[: round(len(samples) / speed)]


def taught(clips: Iterable[Clip], network: Encoder, device: str, own: float = 0.5) -> Voices:
    """Give the clips that are learned from, at each speed, and what they teach. own: the share of a clip's own voice in
    that, beside its reader's."""
    network, front = network.to(device).eval(), Front().to(device)
    sounds, names, corpora = list[Tensor](), list[str](), list[str]()
    for speed in _SPEEDS:
        for clip in clips:
            if len(clip.samples) < RATE or held(clip.speaker):
                continue
            sound = torch.from_numpy(clip.samples).to(device).float()
            if speed != 1:
                sound = faster(sound, speed)
            sound = sound if len(sound) >= SAMPLES else sound.repeat(2)
            sounds.append(sound.clamp(-32768, 32767).short().cpu())
            who = reader(clip)
            names.append(f"{clip.source} {who} {speed}" if who else "")
            corpora.append(clip.source)
    heard = torch.zeros(len(sounds), WIDTH, device=device)
    # Clips of the same length, to half a second, are heard together.
    sizes = [min(len(sound), _LONGEST) // (RATE // 2) * (RATE // 2) for sound in sounds]
    with torch.inference_mode():
        for size in sorted(set(sizes)):
            same = [i for i, one in enumerate(sizes) if one == size]
            for at in range(0, len(same), 64):
                some = same[at : at + 64]
                begins = [(len(sounds[i]) - size) // 2 for i in some]
                batch = torch.stack([sounds[i][b : b + size] for i, b in zip(some, begins, strict=True)]).to(device)
                heard[torch.tensor(some, device=device)] = F.normalize(network(front(batch.float() / 32768)))
    known = sorted({name for name in names if name})
    numbers = {name: number for number, name in enumerate(known)} | {"": -1}
    owners = torch.tensor([numbers[name] for name in names], device=device)
    moved = own * heard + (1 - own) * _means(heard, owners, len(known))[owners.clamp(min=0)]
    teach = torch.where((owners >= 0)[:, None], F.normalize(moved), heard)
    lengths = torch.tensor([len(sound) for sound in sounds], device=device)
    where = {name: number for number, name in enumerate(sorted(set(corpora)))}
    return Voices(
        torch.cat(sounds).to(device),
        lengths.cumsum(0) - lengths,
        lengths,
        teach,
        owners,
        torch.tensor([where[name] for name in corpora], device=device),
    )


def _means(heard: Tensor, owners: Tensor, count: int) -> Tensor:
    """Give the mean voice of each of `count` readers, of length 1."""
    sums = torch.zeros(count, WIDTH, device=heard.device)
    return F.normalize(sums.index_add_(0, owners.clamp(min=0), heard * (owners >= 0)[:, None]))


def crops(samples: Tensor, starts: Tensor, lengths: Tensor, draw: torch.Generator) -> Tensor:
    """Give a crop of each clip: float32 [n, SAMPLES]."""
    room = (lengths - SAMPLES).clamp(min=0)
    shift = (torch.rand(len(starts), generator=draw, device=samples.device) * (room + 1)).long()
    places = (starts + shift)[:, None] + torch.arange(SAMPLES, device=samples.device)
    return samples[places].float() / 32768


def rough(waves: Tensor, draw: torch.Generator) -> Tensor:
    """Give crops as microphones in rooms may hear them: float32 [n, SAMPLES]. They may have an echo, noise of some
    colour, another of the voices in the background, a narrow band and few bits."""
    count, device = len(waves), waves.device

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(count, 1, generator=draw, device=device)

    def some(share: float) -> Tensor:
        return torch.rand(count, 1, generator=draw, device=device) < share

    def noise() -> Tensor:
        return torch.randn(waves.shape, generator=draw, device=device)

    def level(x: Tensor) -> Tensor:
        return x.square().mean(1, keepdim=True).sqrt().clamp(min=1e-5)

    whole = 2 * SAMPLES
    frequency = torch.arange(SAMPLES + 1, device=device) * (RATE / whole)
    # An echo decays by 60 dB within its length; the first sample is the voice itself.
    decay = uniform(0.15, 0.7) * RATE
    echo = noise() * 10 ** (-3 * torch.arange(SAMPLES, device=device) / decay)
    echo = echo * 10 ** (-uniform(-1, 12) / 20) / echo.square().sum(1, keepdim=True).sqrt()
    echo = torch.where(some(0.6), echo, 0.0)
    echo[:, 0] = 1
    spectrum = torch.fft.rfft(waves, whole) * torch.fft.rfft(echo, whole)
    # A microphone has a colour of its own, and a telephone a narrow band.
    spectrum = spectrum * (frequency.clamp(min=60) / 1000) ** uniform(-0.3, 0.3)
    edge = torch.where(some(0.2), uniform(3300, 7000), 9000.0)
    out = torch.fft.irfft(spectrum / (1 + (frequency / edge) ** 16), whole)[:, :SAMPLES]
    other = out.roll(1, 0)
    out = out + torch.where(some(0.15), other * level(out) / level(other) * 10 ** (-uniform(6, 20) / 20), 0.0)
    colour = torch.fft.rfft(noise(), whole) * (frequency.clamp(min=50) / 100) ** -uniform(0, 1)
    ground = torch.fft.irfft(colour, whole)[:, :SAMPLES]
    out = out + torch.where(some(0.6), ground * level(out) / level(ground) * 10 ** (-uniform(5, 35) / 20), 0.0)
    step = out.abs().amax(1, keepdim=True).clamp(min=1e-5) / 2 ** uniform(5, 9)
    return torch.where(some(0.15), (out / step).round() * step, out)


def learn(
    published: Encoder,
    voices: Voices,
    seconds: float,
    told: Callable[[int, Encoder], None],
    *,
    margin: float = 0.05,
    batch: int = 256,
    rate: float = 2e-4,
    every: float = 60.0,
    steps: int | None = None,
    seed: int = 3,
) -> Encoder:
    """Give what ``published`` becomes by learning for ``seconds``, or a number of steps. Its normalisations stay as
    they are. ``told`` gets the step and the network every so many seconds. margin: what parting the readers counts."""
    device = voices.samples.device
    draw = torch.Generator(device).manual_seed(seed)
    random = np.random.default_rng(seed)
    network, front = deepcopy(published).to(device).eval(), Front().to(device)
    owners, count = voices.owners, int(voices.owners.max()) + 1
    classes = torch.nn.Parameter(_means(voices.teach, owners, count))
    places = [torch.nonzero(voices.corpora == one)[:, 0] for one in range(int(voices.corpora.max()) + 1)]
    shares = np.array([len(one) for one in places]) ** 0.75
    # Which readers are of which corpus.
    at_home = torch.zeros(len(places), count, dtype=torch.bool, device=device)
    at_home[voices.corpora[owners >= 0], owners[owners >= 0]] = True
    optimizer = torch.optim.AdamW([*network.parameters(), classes], lr=rate, weight_decay=0.01)
    began = last = time.monotonic()
    step = 0
    while True:
        spent = time.monotonic() - began
        done = step / steps if steps else spent / seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 200) * (0.02 + 0.98 * (0.5 + 0.5 * np.cos(np.pi * done)))
        corpus = int(random.choice(len(places), p=shares / shares.sum()))
        mine = places[corpus][torch.randint(len(places[corpus]), (batch,), generator=draw, device=device)]
        with torch.no_grad():
            waves = rough(crops(voices.samples, voices.starts[mine], voices.lengths[mine], draw), draw)
            # A stretch of the crop alone, so that shorter speech is learned too.
            size = int(random.integers(SAMPLES * 2 // 3, SAMPLES + 1))
            mels = front(waves[:, :size])
        with torch.autocast(device.type, torch.bfloat16):
            heard = network(mels)
        heard = F.normalize(heard.float())
        loss = far = (1 - (heard * voices.teach[mine]).sum(1)).mean()
        labelled = owners[mine] >= 0
        if margin and bool(labelled.any()):
            own = owners[mine][labelled][:, None]
            cosines = heard[labelled] @ F.normalize(classes).T
            angle = torch.acos(cosines.gather(1, own).clamp(-1 + 1e-6, 1 - 1e-6))
            logits = _SCALE * cosines.scatter(1, own, torch.cos(angle + _MARGIN))
            # Only the readers of this corpus are told apart.
            here = at_home[corpus].nonzero()[:, 0]
            places_here = torch.searchsorted(here, own[:, 0].contiguous())
            loss = loss + margin * F.cross_entropy(logits[:, here], places_here, label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0 or step == steps:
            print(
                f"step {step}, {spent:.0f} s: loss {loss.item():.3f}, from what is taught {far.item():.3f}", flush=True
            )
        if time.monotonic() - last >= every:
            told(step, network)
            last = time.monotonic()
    told(step, network)
    return network


@dataclass(frozen=True)
class Trials:
    """Crops of readers who are compared: float32 [n, SAMPLES], the reader of each, and where each comes from."""

    crops: Floats
    owners: Sequence[str]
    corpora: Sequence[str]


def trials(clips: Iterable[Clip], *, kept: bool, seed: int = 11) -> Trials:
    """Give crops of 1.5 s of each reader: of those who are kept, or of those who are learned from."""
    random = np.random.default_rng(seed)
    of: dict[str, list[Clip]] = {}
    for clip in clips:
        if reader(clip) and len(clip.samples) >= SAMPLES and held(clip.speaker) == kept:
            of.setdefault(clip.speaker, []).append(clip)
    found, owners, corpora = list[Floats](), list[str](), list[str]()
    for name in sorted(of):
        if len(of[name]) < _FEWEST:
            continue
        for place in random.permutation(len(of[name]))[:_MOST]:
            clip = of[name][place]
            at = int(random.integers(0, len(clip.samples) - SAMPLES + 1))
            found.append(clip.samples[at : at + SAMPLES].astype(np.float32) / 32768)
            owners.append(name)
            corpora.append(clip.source)
    return Trials(np.stack(found), owners, corpora)


def prints(network: Encoder, waves: Tensor) -> Floats:
    """Give the voice prints of crops, each of length 1."""
    front = Front().to(waves.device)
    with torch.inference_mode():
        return torch.cat([F.normalize(network(front(some))) for some in waves.split(64)]).cpu().numpy()


def equal_error_rate(voices: Floats, owners: Sequence[str], corpora: Sequence[str]) -> tuple[float, float]:
    """Give the rate at which as many pairs of one speaker are parted as pairs of two are taken for one, and the cosine
    that parts them; only pairs of one corpus count, whose microphones are alike."""
    cosines = voices @ voices.T
    who, where = np.array(owners), np.array(corpora)
    first, second = np.triu_indices(len(who), 1)
    pairs = where[first] == where[second]
    same, score = (who[first] == who[second])[pairs], cosines[first, second][pairs]
    order = np.argsort(-score)
    same = same[order]
    accepted, refused = np.cumsum(~same) / max(int((~same).sum()), 1), 1 - np.cumsum(same) / max(int(same.sum()), 1)
    at = int(np.argmin(np.abs(accepted - refused)))
    return float((accepted[at] + refused[at]) / 2), float(score[order][at])
