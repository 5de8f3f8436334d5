"""What every room's tests share: the embedded model and clips that no model was trained on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.store import find
from streaming.model import AsrModel
from tests.clips import DATA, Clip, read_clip


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
