"""Synthetic shards come into the pool by name, as many as fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.plan import SYNTHETIC
from training.asr.pool import Pool
from training.shards import RATE, Clip

from .shapes import CONFIG, SENTENCES, tiny_tokenizer, write_shard


@pytest.mark.parametrize(("seconds", "taken"), [(3.5, 3), (60.0, 5), (0.5, 0)])
def test_shards_are_taken_as_long_as_they_fit(tmp_path: Path, seconds: float, taken: int) -> None:
    tiny_tokenizer(tmp_path / "tokenizer")
    made = tmp_path / "made"
    made.mkdir()
    for i in range(5):
        write_shard(made, f"w{i % 2:02d}_{i:04d}", np.full(RATE, i + 1, np.int16), SENTENCES[i])
    config = replace(CONFIG, batches=replace(CONFIG.batches, pool_hours=seconds / 3600))
    tokenizer = tmp_path / "tokenizer" / "tokenizer.json"
    pool = Pool(config, tokenizer, {"letter": 2}, torch.device("cpu"))
    pool.add_synthetic(made)
    assert pool.hours == ({SYNTHETIC: pytest.approx(taken / 3600)} if taken else {})
    # By name, these are all of the first process's shards.
    assert set(pool.audio.tolist()) - {0} == set([1, 3, 5, 2, 4][:taken])


def test_a_planner_that_fails_ends_the_run(tmp_path: Path) -> None:
    """A planner that fails says why, and nobody waits for its plans."""
    tiny_tokenizer(tmp_path)
    pool = Pool(CONFIG, tmp_path / "tokenizer.json", {"letter": 2}, torch.device("cpu"))
    pool.add_sounds("librispeech", [])
    with pytest.raises(ZeroDivisionError):
        next(pool.begin(0))


@pytest.mark.parametrize("planners", [1, 2])
def test_as_many_processes_as_there_are_plan_the_same(tmp_path: Path, planners: int) -> None:
    """Plans begin at any number, so that a run that was cut off can go on with its next one."""
    tiny_tokenizer(tmp_path)
    config = replace(CONFIG, batches=replace(CONFIG.batches, planners=planners))
    pool = Pool(config, tmp_path / "tokenizer.json", {"letter": 2}, torch.device("cpu"))
    pool.add_clips([Clip(np.zeros(RATE, np.int16), "A letter came.", "s", "LibriSpeech", "librispeech", "a")])
    plans = pool.begin(0)
    whole = [next(plans) for _ in range(8)]
    cut = pool.begin(5)
    for plan in whole[5:]:
        again = next(cut)
        assert (again.segments == plan.segments).all() and (again.targets == plan.targets).all()
