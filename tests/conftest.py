"""What every room's tests share: the embedded model and clips that no model was trained on."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr

from engines.store import find
from streaming.model import AsrModel

DATA = Path(__file__).parent / "data"
RATE = 16_000


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording with what was said."""

    name: str
    samples: npt.NDArray[np.float32]
    """Mono at 16 kHz."""
    text: str
    corpus: str

    @property
    def seconds(self) -> float:
        """Length."""
        return len(self.samples) / RATE


def read_clip(path: Path, text: str = "", corpus: str = "") -> Clip:
    """Decode a sound file to 16 kHz mono."""
    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = np.ascontiguousarray(samples.mean(axis=1))
    if rate != RATE:
        mono = soxr.resample(mono, rate, RATE)
    return Clip(path.name, mono.astype(np.float32), text, corpus)


@pytest.fixture(scope="session")
def model_directory() -> Path:
    """The embedded hearing model."""
    return find("pocket-asr-en")


@pytest.fixture(scope="session")
def asr_model(model_directory: Path) -> Iterator[AsrModel]:
    """The embedded hearing model, loaded once for the whole run."""
    model = AsrModel(model_directory, sessions=20)
    yield model
    model.close()


@pytest.fixture(scope="session")
def clips() -> list[Clip]:
    """All short test clips, in the order of the index."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text().splitlines()]
    return [read_clip(DATA / row["file"], row["text"], row["corpus"]) for row in rows if row["seconds"] < 60]


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio only."""
    return "asyncio"
