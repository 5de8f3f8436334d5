"""Kokoro's voices, mixtures of them that are drawn at random, the four mixtures that are our own voices, and thousands
of speakers from whom cloning is learnt.

A voice is float32 [510, 256], which is one style for every number of phonemes. A mixture is a weighted mean of voices.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from training.checkpoint import save_weights

_ENGLISH = ("af_", "am_", "bf_", "bm_")
# The share of draws that take an English voice; the other voices speak English with an accent.
ENGLISH_SHARE = 0.75
# The share of draws that mix two or three voices.
MIXED_SHARE = 0.5
SPEEDS = 0.75, 1.35
"""How fast a voice speaks for a model that hears, 1 as Kokoro has it."""
OWN_SPEEDS = 0.96, 1.04
"""How fast our own voices speak. Paces of .96 to 1.04 leave the talker less to guess than those of .9 to 1.12
(notes/2026-11-speaking-runs.md)."""
SPEAKERS = 4000
"""How many speakers there are: in 100 hours each says some ten sentences."""
# One speaker in so many is never trained on.
HELD_OUT = 40
_SPEAKER_PITCHES, _SPEAKER_SPEEDS = (0.88, 1.14), (0.85, 1.15)
"""How much higher a speaker's voice is played than it was said, and how fast the speaker speaks."""

OWN: Mapping[str, Mapping[str, float]] = {
    "clara": {"af_heart": 0.6, "af_bella": 0.3, "af_sarah": 0.1},
    # maeve breathes after the last sound, so that another word is heard there. The one other mixture that was tried,
    # bf_alice .45, bf_lily .35 and af_heart .2, is no better to Moonshine.
    "maeve": {"bf_emma": 0.55, "bf_isabella": 0.25, "af_heart": 0.2},
    "hugo": {"am_michael": 0.6, "am_fenrir": 0.25, "am_puck": 0.15},
    "owen": {"bm_george": 0.5, "bm_fable": 0.3, "am_michael": 0.2},
}
"""Two women and two men, one American and one British of each."""


@dataclass(frozen=True)
class Voice:
    """A mixture: rows of the voices' table and their weights, which sum to 1. british: which accent's phonemes it is
    given; pitch: it is played so much faster, which raises formants too; held_out: it is never trained on."""

    rows: tuple[int, ...]
    weights: tuple[float, ...]
    british: bool
    name: str = ""
    pitch: float = 1.0
    held_out: bool = False


def save_voices(files: Mapping[str, bytes], path: Path) -> None:
    """Write the package's voices (`package/voices/NAME.bin`) as one safetensors file in float16."""
    start, end = "package/voices/", ".bin"
    found = {
        name.removeprefix(start).removesuffix(end): np.frombuffer(data, np.float32).reshape(510, 256)
        for name, data in files.items()
        if name.startswith(start)
    }
    save_weights({name: torch.from_numpy(styles.copy()) for name, styles in found.items()}, path)


class Voices:
    """All voices on a device, in the order of their names."""

    def __init__(self, path: Path, device: torch.device) -> None:
        table = load_file(path)
        self.names = sorted(table)
        self._table = torch.stack([table[n] for n in self.names]).float().to(device)
        self._english = [i for i, n in enumerate(self.names) if n.startswith(_ENGLISH)]
        self._other = [i for i, n in enumerate(self.names) if not n.startswith(_ENGLISH)]

    def own(self, name: str) -> Voice:
        """Give one of our own four."""
        parts = OWN[name]
        rows = tuple(self.names.index(n) for n in parts)
        return Voice(rows, tuple(parts.values()), next(iter(parts)).startswith("b"), name)

    def speaker(self, number: int) -> tuple[Voice, float]:
        """Give one of SPEAKERS and the speed of speaking. A mixture is always the same under one number."""
        rng = np.random.default_rng([SPEAKERS, number])
        mixture, pitch = self.draw(rng, 1.0), float(np.exp(rng.uniform(*np.log(_SPEAKER_PITCHES))))
        voice = replace(mixture, name=f"s{number:04d}", pitch=pitch, held_out=number % HELD_OUT == 0)
        return voice, float(rng.uniform(*_SPEAKER_SPEEDS)) / pitch

    def draw(self, rng: np.random.Generator, mixed: float = MIXED_SHARE) -> Voice:
        """Draw a voice, or (in a share of `mixed`) a mixture of two or three."""
        count = int(rng.integers(2, 4)) if rng.random() < mixed else 1
        rows: list[int] = []
        for _ in range(count):
            group = self._english if rng.random() < ENGLISH_SHARE else self._other
            rows.append(int(rng.choice(group)))
        weights = rng.dirichlet([1.5] * count)
        heaviest = self.names[rows[int(weights.argmax())]]
        british = heaviest.startswith("b") or (not heaviest.startswith("a") and rng.random() < 0.3)
        return Voice(tuple(rows), tuple(float(w) for w in weights), british)

    def styles(self, voices: list[Voice], phonemes: int) -> Tensor:
        """Give the styles [B, 256] for utterances of so many phonemes (without pads)."""
        at = min(max(phonemes - 1, 0), self._table.shape[1] - 1)
        width = max(len(v.rows) for v in voices)
        rows = torch.tensor([[*v.rows, *[0] * (width - len(v.rows))] for v in voices])
        weights = torch.tensor([[*v.weights, *[0.0] * (width - len(v.weights))] for v in voices])
        device = self._table.device
        return (self._table[:, at][rows.to(device)] * weights.to(device)[:, :, None]).sum(1)
