"""Synthetic shards on their way into the pool: as many as fit, in order, each once."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.config import Config
from training.asr.pool import Pool
from training.shards import RATE

from .shapes import CONFIG, SENTENCES, tiny_tokenizer, write_shard


@contextmanager
def pool_of(tmp_path: Path, seconds: float) -> Generator[Pool]:
    config: Config = replace(CONFIG, batches=replace(CONFIG.batches, planners=1))
    tiny_tokenizer(tmp_path / "tokenizer")
    tokenizer = tmp_path / "tokenizer" / "tokenizer.json"
    pool = Pool(config, tokenizer, ["letter"], torch.device("cpu"), seconds / 3600, easy_steps=0)
    try:
        yield pool
    finally:
        pool.close()


def write(folder: Path, count: int, seconds: float = 1.0) -> None:
    folder.mkdir()
    for i in range(count):
        samples = np.full(int(seconds * RATE), i + 1, np.int16)
        write_shard(folder, f"w{i % 2:02d}_{i:04d}", samples, SENTENCES[i])


def test_what_does_not_fit_stays_where_it_is(tmp_path: Path) -> None:
    """A full pool takes nothing more, and says so: a run that asked again until something came waited for ever."""
    write(tmp_path / "made", 5)
    with pool_of(tmp_path, 3.5) as pool:
        assert pool.take_synthetic(tmp_path / "made") == 0 and not pool.hours  # reading has begun, that is all
        assert pool.take_synthetic(tmp_path / "made", wait=True) == 3
        assert pool.take_synthetic(tmp_path / "made", wait=True) == 0 and pool.full
        assert pool.hours == {"kokoro": pytest.approx(3 / 3600)}
        assert set(pool.audio.tolist()) == {1, 3, 5, 0}  # by name: all of the first worker's
    assert len(list((tmp_path / "made").glob("w*.json"))) == len(list((tmp_path / "made").glob("w*.pcm"))) == 2


def test_a_pool_without_room_for_one_is_full(tmp_path: Path) -> None:
    write(tmp_path / "made", 1, 2.0)
    with pool_of(tmp_path, 1.0) as pool:
        pool.take_synthetic(tmp_path / "made")
        assert pool.take_synthetic(tmp_path / "made", wait=True) == 0 and pool.full


def test_shards_come_once_and_later_ones_too(tmp_path: Path) -> None:
    made = tmp_path / "made"
    write(made, 4)
    with pool_of(tmp_path, 60) as pool:
        taken = [pool.take_synthetic(made, 3, wait=True) for _ in range(4)]
        assert sum(taken) == 4 and max(taken) == 3 and not pool.full
        samples = np.full(RATE, 9, np.int16)
        write_shard(made, "w01_0009", samples, SENTENCES[0], "another")
        assert sum(pool.take_synthetic(made, wait=True) for _ in range(2)) == 1
        assert pool.hours.keys() == {"kokoro", "another"}
        assert not list(made.iterdir())
