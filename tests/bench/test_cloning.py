"""Likeness of cloned voices: who is cloned, what the clone says, and how it is judged."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.clips import shards
from bench.cloning import Similarity, clones, cloning_rows, people
from bench.material import Material
from bench.row import NotMeasured
from tests.bench.conftest import pick, write_shard
from tests.clips import DATA
from tests.daemon.encoders import cloner

GOLDEN = Path(__file__).parent.parent / "golden" / "speaking"


def said_by(speaker: str, rows: list[dict[str, Any]], corpus: str = "CMU AN4 (census)") -> list[dict[str, Any]]:
    return [{**row, "speaker": speaker, "corpus": corpus} for row in rows]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Four with enough to say, one of them in training too; and one who says little."""
    kathleen, lj = pick("kathleen", 12), pick("ljspeech", 12)
    rows = [
        *said_by("anna", kathleen), *said_by("bert", lj), *said_by("carl", lj, "librispeech_dev"),
        *said_by("dora", kathleen), *said_by("emil", kathleen[:2]), *said_by("None", lj),
    ]  # fmt: skip
    names = iter(range(1000))
    folder = tmp_path / "clips"
    folder.mkdir()
    for row in rows:
        file = folder / f"{next(names)}.opus"
        shutil.copy(DATA / row["file"], file)
        row["file"] = str(file)
    write_shard(tmp_path / "speech" / "en-test-00.tar", rows, root=Path("/"))
    write_shard(tmp_path / "speech" / "en-train-00.tar", said_by("dora", kathleen[:1]))
    return tmp_path


def test_those_are_cloned_whom_training_has_not(data: Path) -> None:
    chosen = people(Material(data, shards(data)))
    assert [one.speaker for one in chosen] == ["carl", "bert", "anna"]
    for one in chosen:
        assert 160_000 <= len(one.reference) <= 192_000 and 80_000 <= len(one.held) <= 192_000
        assert not np.array_equal(one.held[:16_000], one.reference[:16_000])
    assert [one.speaker for one in people(Material(data, shards(data), limit=2))] == ["carl", "bert"]
    with pytest.raises(NotMeasured, match="two speakers with 15 s"):
        people(Material(data, shards(data), limit=1))


def test_a_model_that_cannot_clone_says_so(data: Path) -> None:
    with pytest.raises(NotMeasured, match="has no speaker encoder"):
        cloning_rows(Material(data, shards(data), speaking=str(GOLDEN)))


def test_every_person_s_clone_says_its_sentence(data: Path, tmp_path: Path) -> None:
    chosen = people(Material(data, shards(data)))
    said = clones(cloner(GOLDEN, tmp_path / "model"), chosen[:2], 1)
    assert len(said) == 2 and all(wave.dtype == np.float32 and np.isfinite(wave).all() for wave in said)


if all(find_spec(name) for name in ("torch", "resemblyzer")):  # `make reference` has both

    def test_one_person_is_more_like_themselves_than_like_another(data: Path, tmp_path: Path) -> None:
        similarity = Similarity()
        carl, bert, anna = people(Material(data, shards(data)))
        assert carl.reference.shape == bert.reference.shape  # one voice under two names
        vector = similarity.vector(carl.reference)
        assert vector.shape == (256,) and np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        assert vector @ similarity.vector(carl.held) > 0.85 > vector @ similarity.vector(anna.held)
        [row] = cloning_rows(Material(data, shards(data), speaking=str(cloner(GOLDEN, tmp_path / "model"))))
        assert row.name == "cloning, likeness to 3 people" and row.status in ("met", "open")
        assert 0 < row.details["said"] < row.details["recorded"]
        assert set(row.details["people"]) == {"carl", "bert", "anna"}
        assert json.dumps(row.details)
