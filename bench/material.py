"""What the rows of an evaluation share: clips, models, and the texts that were heard already."""

import random
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.clips import Clip, read_shard
from bench.ear import Ear, Progress, file_sound
from bench.peers import PEERS, RATE, Floats, Peer, PeerText, hear
from engines import store

SEED = 20_261_120


@dataclass
class Material:
    """Inputs of one evaluation.

    Attributes:
        data: the data directory: ``speech/*.tar``, ``text/*.xz``.
        shards: tars whose clips are heard.
        only: names of clips, all without.
        hearing, speaking: model names or directories, the defaults without.
        reference: directory of the same hearing model in fp32 and f32.
        threads: thread budget of model calls; None for the CPUs this process may use.
        limit: most clips of a corpus, and most sentences, for quick looks.
        spoken: folder that keeps what the speaking model says.
        beside: folder of the same sentences as another says them, WAV files whose names begin as those there.
        sentences: file of what the speaking model says, one sentence a line; None for the 500 (bench/sentences.py).
        peers: recognisers that hear beside the model: names of ``bench.peers.PEERS``.
        voice: who speaks; None for the voice of the recordings, where the model has it, else its first.
    """

    data: Path
    shards: Sequence[Path]
    only: frozenset[str] | None = None
    hearing: str | None = None
    speaking: str | None = None
    reference: Path | None = None
    threads: int | None = None
    limit: int | None = None
    spoken: Path | None = None
    beside: Path | None = None
    sentences: Path | None = None
    peers: Sequence[str] = ()
    voice: str | None = None
    _heard: dict[tuple[Path, int], str] = field(default_factory=dict[tuple[Path, int], str], init=False)
    _others: dict[tuple[str, int], PeerText] = field(default_factory=dict[tuple[str, int], PeerText], init=False)

    @cached_property
    def clips(self) -> list[Clip]:
        """The chosen clips, in the order of the shards."""
        counts: dict[str, int] = {}
        chosen = list[Clip]()
        for clip in (clip for shard in self.shards for clip in read_shard(shard)):
            if self.only is not None and clip.file not in self.only:
                continue
            counts[clip.corpus] = counts.get(clip.corpus, 0) + 1
            if self.limit is None or counts[clip.corpus] <= self.limit:
                chosen.append(clip)
        return chosen

    @property
    def hearing_model(self) -> Path:
        """Directory of the hearing model. ModelNotFound: there is none."""
        return store.find(self.hearing or store.default())

    @property
    def speaking_model(self) -> Path:
        """Directory of the speaking model. ModelNotFound: there is none."""
        return store.find(self.speaking or store.default("tts"))

    def texts(self, clips: Sequence[Clip], directory: Path | None = None, what: str = "heard") -> list[str]:
        """Final texts of ``clips`` by a hearing model, the shipped one without ``directory``; each is heard once."""
        directory = directory or self.hearing_model
        keys = [(directory, hash(clip.audio)) for clip in clips]
        missing = {key: clip for key, clip in zip(keys, clips, strict=True) if key not in self._heard}
        if missing:
            with Ear(directory, self.threads) as ear, progress(what) as report:
                texts = ear.texts([file_sound(clip.audio) for clip in missing.values()], progress=report)
            self._heard.update(zip(missing, texts, strict=True))
        return [self._heard[key] for key in keys]

    @cached_property
    def present(self) -> list[Peer]:
        """The peers that can be asked here."""
        return [PEERS[name] for name in self.peers if not PEERS[name].missing()]

    @property
    def absent(self) -> list[str]:
        """How to get each of the peers that cannot run here."""
        return [f"{p.name} {reason}" for p in map(PEERS.__getitem__, self.peers) if (reason := p.missing())]

    def heard_by(self, peer: Peer, clips: Sequence[Clip]) -> list[PeerText]:
        """What a peer hears in ``clips``; each is heard once."""
        keys = [(peer.name, hash(clip.audio)) for clip in clips]
        missing = {key: clip for key, clip in zip(keys, clips, strict=True) if key not in self._others}
        if missing:
            with progress(peer.name) as report:
                found = hear(peer, [samples(clip) for clip in missing.values()], report)
            self._others.update(zip(missing, found, strict=True))
        return [self._others[key] for key in keys]

    def sample(self, clips: Sequence[Clip], count: int, seed: int = 0) -> list[Clip]:
        """``count`` of ``clips`` (all if there are fewer), drawn by the seed, in their own order."""
        places = range(len(clips))
        chosen = sorted(random.Random(SEED + seed).sample(places, min(count, len(clips))))
        return [clips[i] for i in chosen]


def samples(clip: Clip) -> Floats:
    """A clip as peers hear it: float32 mono [n] at their rate."""
    return np.concatenate([*file_sound(clip.audio)(RATE), np.zeros(0, np.float32)])


@contextmanager
def progress(what: str) -> Generator[Progress]:
    """A line on stderr every ten seconds while something takes long."""
    began = last = time.monotonic()

    def report(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 10:
            last = now
            left = (now - began) / max(share, 1e-6) * (1 - share)
            print(f"  {what}: {100 * share:.0f} %, {left:.0f} s left", file=sys.stderr, flush=True)

    yield report
