"""A run of two processes makes one model of what both hear."""

import itertools
import json
import multiprocessing
import os
import socket
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from training.asr.model import PocketASR
from training.asr.train import LAST, HearingRun, HearingTrainer
from training.checkpoint import WEIGHTS, load_weights, save_weights

from .shapes import CONFIG, SENTENCES, shard, tiny_tokenizer, write_shard


class _Counted(HearingTrainer):
    """Tells how the weights of its process ended and what its pool holds."""

    def told(self) -> tuple[list[torch.Tensor], float]:
        return [p.detach() for p in self._model.parameters()], self._pool.hours["synthetic"]


def _train(number: int, port: int, folder: Path) -> None:
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    given = HearingRun(
        shards=(folder / "en-train-00.tar",), text=folder / "text.txt", synthetic=folder / "made",
        tokenizer=folder / "tokenizer" / "tokenizer.json", start=folder / "start", out=folder / "run",
        seconds=30, device="cpu",
    )  # fmt: skip
    ticks = itertools.count(1000.0, 1.0 + number)  # the second one's clock runs ahead
    run = _Counted(CONFIG, given)
    run.now = lambda: next(ticks)
    run.train()
    torch.save(run.told(), folder / f"told-{number}")


def test_two_processes_take_the_same_steps(tmp_path: Path) -> None:
    tiny_tokenizer(tmp_path / "tokenizer")
    shard(tmp_path / "en-train-00.tar", 12)
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES))
    torch.manual_seed(1)
    save_weights(PocketASR(CONFIG.shape).state_dict(), tmp_path / "start" / WEIGHTS)
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
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] > 2
    assert load_weights(tmp_path / "run" / LAST / WEIGHTS)
