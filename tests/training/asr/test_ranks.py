"""A run of two processes makes one model of what both hear."""

import json
import multiprocessing
import os
import socket
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.train import HearingRun, HearingTrainer

from .shapes import CONFIG, SENTENCES, script, shard, start, teacher, write_shard


class _Counted(HearingTrainer):
    """Tells how the weights of its process ended and what its pool holds."""

    steps = 0

    def _order(self) -> float:
        return 2.0 if self.count >= self.steps else 0.0

    def told(self) -> tuple[list[torch.Tensor], float]:
        return [p.detach() for p in self._model.parameters()], self._pool.hours["synthetic"]


def _train(number: int, port: int, folder: Path) -> None:
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    given = HearingRun(
        shards=(folder / "en-train-00.tar",), script=(folder / "script.npz",), synthetic=folder / "made",
        start=folder / "start", teacher=folder / "teacher", labels=(folder / "labels.jsonl",), out=folder / "run",
        seconds=1e6, device="cpu",
    )  # fmt: skip
    run = _Counted(CONFIG, given)
    run.steps = 8 + number  # What the second process thinks does not count.
    run.train()
    torch.save(run.told(), folder / f"told-{number}")


def test_two_processes_take_the_same_steps(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").touch()
    teacher(tmp_path / "teacher")
    start(tmp_path / "start")
    shard(tmp_path / "en-train-00.tar", 12)
    script(tmp_path / "script.npz")
    made = tmp_path / "made"
    made.mkdir()
    for name, seconds in (("w00_0000", 3), ("w01_0000", 5)):
        write_shard(made, name, np.zeros(seconds * 16000, np.int16), SENTENCES[0])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        multiprocessing.get_context("spawn").Process(target=_train, args=(number, port, tmp_path)) for number in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0, 0]
    (mine, heard), (theirs, also) = (torch.load(tmp_path / f"told-{number}") for number in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert (heard, also) == (pytest.approx(3 / 3600), pytest.approx(5 / 3600)), "each its own part"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 8
