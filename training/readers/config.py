"""One TOML file configures the reader model: shape, batches, optimisation."""

from dataclasses import dataclass, field
from pathlib import Path

from training.asr.config import Optimisation
from training.settings import read_settings


@dataclass(frozen=True)
class Shape:
    """Of the network that paints bands, and of the one that times phones."""

    width: int = 512
    layers: int = 8
    heads: int = 8
    ffn: int = 1536
    style: int = 48  # numbers that stand for a voice, its room and its microphone
    timing_width: int = 256
    timing_layers: int = 4
    timing_dropout: float = 0.2
    dropout: float = 0.05


@dataclass(frozen=True)
class Batches:
    """Rows of a few fixed lengths, so that a layer is compiled a few times only."""

    slots: tuple[int, ...] = (152, 304, 608)  # of 20 ms
    slots_per_step: int = 38_400
    timed_clips: int = 64  # of a step of the timing network
    style_slots: int = 100  # what a style is taken from
    unguided: float = 0.1  # rows that paint without phones


@dataclass(frozen=True)
class Reading:
    """The whole file."""

    shape: Shape = field(default_factory=Shape)
    batches: Batches = field(default_factory=Batches)
    optimisation: Optimisation = field(default_factory=Optimisation)
    timing_steps: int = 800  # the timing network has the texts by heart soon
    weight_decay: float = 0.05


def load_reading(path: Path) -> Reading:
    """Read a configuration file; an unknown key is an error that names it."""
    return read_settings(Reading, path)
