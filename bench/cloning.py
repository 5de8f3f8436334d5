"""How like a person the speaking model sounds after ten seconds of them, to a network that was trained to tell people
apart (Resemblyzer), which is not ours; people whom no training clip has.
"""

import importlib
import importlib.util
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audio.mel_filters import mel_filters
from bench.clips import Clip, read_index, read_shard
from bench.material import Material, progress
from bench.recordings import wave
from bench.row import NotMeasured, Row
from bench.sentences import sentences
from bench.spoken import RATE, say
from codec.model import TtsModel
from codec.voices import CannotClone, Voices
from engines import manifest as manifests

Floats = npt.NDArray[np.float32]

GOAL: Final = 0.75
"""How similar a clone must be to a recording of the person, as a share of the similarity of two recordings."""
PEOPLE: Final = 20
"""The number of people who are cloned, at most."""
REFERENCE, HELD, MOST = 10.0, 5.0, 12.0
"""Seconds: the least that is cloned, the least of the recording beside it, and the most of either."""

BINS, SIZE, HOP, FRAMES, STEP = 40, 400, 160, 160, 77
"""The measures of the network (Resemblyzer 0.1.4, hparams.py): bins, window and hop of its mels, frames of a part that
it hears, and frames from one part to the next (1.3 parts a second)."""
LEVEL: Final = 10 ** (-30 / 20)
"""The root mean square to which softer recordings are raised: −30 dBFS, as in Resemblyzer's hparams.py."""


@dataclass(frozen=True, slots=True)
class Person:
    """``reference`` is cloned, ``held`` is compared with what the clone says: float32 [n] at :data:`RATE`."""

    speaker: str
    corpus: str
    reference: Floats
    held: Floats


class Similarity:
    """Resemblyzer 0.1.4 by its weights (its package wants older ones beside it): who speaks, as a unit vector."""

    def __init__(self) -> None:
        """
        Raises:
            NotMeasured: it or torch is not installed.
        """
        package, found = "Resemblyzer==0.1.4", importlib.util.find_spec("resemblyzer")
        if found is None or found.origin is None or importlib.util.find_spec("torch") is None:
            raise NotMeasured(f"needs torch and {package}: pip install torch; pip install --no-deps {package}")
        self._torch: Any = importlib.import_module("torch")
        path = Path(found.origin).parent / "pretrained.pt"
        state: dict[str, Any] = self._torch.load(path, map_location="cpu", weights_only=True)["model_state"]
        self._lstm: Any = self._torch.nn.LSTM(BINS, 256, 3, batch_first=True)
        self._lstm.load_state_dict({k[5:]: v for k, v in state.items() if k.startswith("lstm.")})
        self._linear: Any = self._torch.nn.Linear(256, 256)
        self._linear.load_state_dict({k[7:]: v for k, v in state.items() if k.startswith("linear.")})
        self._filters = mel_filters(BINS, RATE, SIZE)

    def mels(self, samples: Floats) -> Floats:
        """Mel power of samples at :data:`RATE`: float32 [frames, bins], at least the frames of one part."""
        level = max(float(np.sqrt(np.mean(np.square(samples)))), 1e-6)
        padded = np.pad(samples * max(LEVEL / level, 1.0), (SIZE // 2, SIZE // 2 + FRAMES * HOP))
        frames = np.lib.stride_tricks.sliding_window_view(padded, SIZE)[::HOP]
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(SIZE) / SIZE)
        power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
        return (power @ self._filters.T).astype(np.float32)

    def vector(self, samples: Floats) -> Floats:
        """float32 [256] of samples at :data:`RATE`: the mean over parts of 1.6 s, the last at least three quarters."""
        mels, last = self.mels(samples), len(samples) // HOP - FRAMES * 3 // 4
        parts = np.stack([mels[i : i + FRAMES] for i in range(0, max(last, 0) + 1, STEP)])
        with self._torch.inference_mode():
            _, (hidden, _) = self._lstm(self._torch.from_numpy(parts))
            found: Floats = self._linear(hidden[-1]).relu().numpy()
        mean = (found / np.linalg.norm(found, axis=1, keepdims=True)).mean(0)
        return mean / np.linalg.norm(mean)


def cloning_rows(material: Material) -> list[Row]:
    """One row: the similarity of clones to the people they are of."""
    directory = material.speaking_model
    try:
        Voices(manifests.read_tts(directory)).require_cloning()
    except CannotClone as reason:
        raise NotMeasured(str(reason)) from None
    similarity = Similarity()
    chosen = people(material)
    said = clones(directory, chosen, material.threads)
    spoken, held, references = (
        np.stack([similarity.vector(one) for one in waves])
        for waves in (said, [one.held for one in chosen], [one.reference for one in chosen])
    )
    said_alike, alike = (spoken * held).sum(1), references @ held.T
    own, recorded = float(said_alike.mean()), float(np.diag(alike).mean())
    others = float(alike[~np.eye(len(alike), dtype=bool)].mean())
    corpora = Counter(one.corpus for one in chosen)
    notes = (
        f"Resemblyzer, on {', '.join(f'{n} of {name}' for name, n in corpora.items())}; "
        f"two people's recordings {others:.2f} = {others / recorded:.2f} ×",
    )
    details: dict[str, Any] = {"said": own, "recorded": recorded, "others": others} | {
        "people": {one.speaker: float(x) for one, x in zip(chosen, said_alike, strict=True)}
    }
    reached = f"{own:.2f} = {own / recorded:.2f} × {recorded:.2f}"
    name = f"cloning, likeness to {len(chosen)} people"
    return [Row(name, reached, f"≥ {GOAL} ×", own >= GOAL * recorded, notes, details)]


def people(material: Material) -> list[Person]:
    """Up to :data:`PEOPLE` speakers of the test clips whom no other shard has: LibriSpeech's first, then those with
    most to hear.

    Raises:
        NotMeasured: fewer than two have enough.
    """
    tars, tests = set((material.data / "speech").glob("*.tar")), set(material.shards)
    known = {str(row.get("speaker")) for path in tars - tests for row in read_index(path)} | {"", "None"}
    found = dict[str, list[Clip]]()
    for clip in (clip for path in material.shards for clip in read_shard(path)):
        if clip.speaker not in known:
            found.setdefault(clip.speaker, []).append(clip)

    def rank(clips: list[Clip]) -> tuple[bool, float]:
        return not clips[0].corpus.lower().startswith("librispeech"), -sum(clip.seconds for clip in clips)

    chosen = list[Person]()
    for clips in sorted(found.values(), key=rank):
        left = iter(clips)
        reference, held = (_joined(left, least) for least in (REFERENCE, HELD))
        if reference is not None and held is not None:
            chosen.append(Person(clips[0].speaker, clips[0].corpus, reference, held))
        if len(chosen) == min(PEOPLE, material.limit or PEOPLE):
            break
    if len(chosen) < 2:
        raise NotMeasured(f"needs two speakers with {REFERENCE + HELD:.0f} s in the shards, and in no other tar")
    return chosen


def _joined(clips: Iterator[Clip], least: float) -> Floats | None:
    """The next clips one after another, at least so many seconds; None where they are fewer."""
    parts, size = list[Floats](), 0
    for clip in clips:
        parts.append(wave(clip.mended(), RATE))
        size += len(parts[-1])
        if size >= least * RATE:
            return np.concatenate(parts)[: int(MOST * RATE)]
    return None


def clones(directory: Path, chosen: list[Person], threads: int | None) -> list[Floats]:
    """What each one's clone says, a sentence each, at :data:`RATE`."""
    said = list[Floats]()
    with tempfile.TemporaryDirectory() as folder, progress("clones") as report:
        with closing(TtsModel(directory, threads=threads, voices=Path(folder))) as model:
            for i, (person, sentence) in enumerate(zip(chosen, sentences(), strict=False)):
                model.clone(f"person-{i}", person.reference, RATE)
                spoken = say(model, f"person-{i}", sentence, i).wave
                said.append(spoken if len(spoken) else np.zeros(RATE, np.float32))
                report((i + 1) / len(chosen))
    return said
