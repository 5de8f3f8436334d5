"""Speech as training reads it: 24 kHz utterances of whole codec frames, their text, and phone labels at 50 Hz.

A shard is `NAME.npz` (uncompressed): wave int16 [samples], labels uint8 [samples / 480], and a JSON list of utterances.
"""

import json
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

from training.tts.config import FRAME, LABEL, RATE
from training.tts.phones import UNKNOWN

LEVEL = 0.07  # root mean square of every utterance, full scale 1
_LOOK_EVERY = 5.0  # seconds


@dataclass(frozen=True)
class Utterance:
    """frames: length in codec frames; phones: as spoken, without silence ([] where unknown); held_out: never trained
    on.
    """

    text: str
    speaker: str
    frames: int
    phones: tuple[int, ...]
    held_out: bool


@dataclass(frozen=True)
class Shard:
    """Utterances one after another in wave int16 [samples] and labels uint8 [samples / 480]."""

    wave: NDArray[np.int16]
    labels: NDArray[np.uint8]
    utterances: list[Utterance]

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npz")
        meta = json.dumps([asdict(u) for u in self.utterances])
        np.savez(temporary, wave=self.wave, labels=self.labels, meta=np.array(meta))
        temporary.rename(path)

    def pieces(self) -> Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]:
        """Every utterance with its samples and labels."""
        at = 0
        for u in self.utterances:
            end = at + u.frames
            ratio = FRAME // LABEL
            yield u, self.wave[at * FRAME : end * FRAME], self.labels[at * ratio : end * ratio]
            at = end


def load_shard(path: Path) -> Shard:
    with np.load(path) as z:
        rows = json.loads(str(z["meta"]))
        made = [Utterance(**(row | {"phones": tuple(row["phones"])})) for row in rows]
        return Shard(z["wave"], z["labels"], made)


def read_ahead(paths: Sequence[Path], depth: int = 4) -> Iterator[Shard]:
    """Shards of `paths` in their order, up to `depth` of them read meanwhile."""
    with ThreadPoolExecutor(depth) as pool:
        waiting: deque[Future[Shard]] = deque()
        for path in paths:
            waiting.append(pool.submit(load_shard, path))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def join(pieces: Iterable[tuple[Utterance, NDArray[np.int16], NDArray[np.uint8]]]) -> Shard:
    """One shard of `pieces` as `Shard.pieces` gives them."""
    rows = list(pieces)
    return Shard(
        np.concatenate([w for _, w, _ in rows]), np.concatenate([x for _, _, x in rows]), [u for u, _, _ in rows]
    )


def shards(folders: Iterable[Path], *kinds: str) -> list[Path]:
    """Finished shards (files that end in one of `kinds`, .npz without), in the order of their names."""
    found = (p for folder in folders if folder.is_dir() for p in folder.iterdir() if p.suffix in (kinds or (".npz",)))
    return sorted(p for p in found if ".part" not in p.name and p.name[0] != ".")


class Arrivals:
    """Shards of folders as they come: a thread reads what is new, `take` gives what has been read. A folder may also
    hold NAME.pcm, int16 samples at 16 kHz without labels.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders, self._seen = folders, set[Path]()
        self._read: queue.Queue[Shard] = queue.Queue(4)
        self.caught_up = threading.Event()  # all that was there at first has been read
        threading.Thread(target=self._follow, daemon=True).start()

    def take(self) -> Shard | None:
        """A shard that was not given before; None where none has come."""
        try:
            return self._read.get_nowait()
        except queue.Empty:
            return None

    @property
    def empty(self) -> bool:
        """Nothing that has been read waits to be taken."""
        return self._read.empty()

    def _follow(self) -> None:
        while True:
            for path in shards(self._folders, ".npz", ".pcm"):
                if path in self._seen:
                    continue
                self._seen.add(path)
                try:
                    self._read.put(load_shard(path) if path.suffix == ".npz" else load_samples(path))
                except Exception as error:  # one bad file ends no run
                    print(f"{path}: left out: {error!r}"[:300], flush=True)
            self.caught_up.set()
            time.sleep(_LOOK_EVERY)


def load_samples(path: Path) -> Shard:
    """int16 samples at 16 kHz -> a shard of one utterance at LEVEL without text or labels."""
    wave = levelled(soxr.resample(np.fromfile(path, np.int16).astype(np.float32), 16_000, RATE))
    labels = np.full(len(wave) // LABEL, UNKNOWN, np.uint8)
    return Shard(wave, labels, [Utterance("", "", len(wave) // FRAME, (), False)])


def levelled(wave: NDArray[np.float32]) -> NDArray[np.int16]:
    """float32 in any scale -> int16 at LEVEL, padded with silence to whole frames; clipped where peaks go beyond
    full scale.
    """
    scale = LEVEL / max(float(np.sqrt(np.mean(np.square(wave)))), 1e-9)
    padded = np.pad(wave * scale, (0, -len(wave) % FRAME))
    return (np.clip(padded, -1.0, 1.0) * 32767).astype(np.int16)
