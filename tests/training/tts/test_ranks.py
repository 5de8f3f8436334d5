"""Runs of two processes make one model of what both draw."""

import itertools
import json
import multiprocessing
import os
import socket
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, random_codes, tokenizer, tone_shard
from training.tts.codec import Codec, save_codec
from training.tts.codec_run import CodecRun, CodecTrainer
from training.tts.talker_run import TalkerRun, TalkerTrainer


def _trainer(kind: str, folder: Path) -> tuple[Any, str]:
    """Give a trainer and the name of its module."""
    speech = (folder / "speech",)
    out, start = folder / kind, folder / "codec.safetensors"
    if kind == "codec":
        run = CodecRun(start=start, speech=speech, out=out, seconds=30, device="cpu")
        return CodecTrainer(CONFIG, run), "codec"
    codes, tokenizer = (folder / "random.npz",), folder / "tokenizer.json"
    run = TalkerRun(codes=codes, tokenizer=tokenizer, out=out, seconds=30, device="cpu")
    return TalkerTrainer(CONFIG, run), "talker"


def _train(number: int, port: int, kind: str, folder: Path) -> None:
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }  # fmt: skip
    torch.set_num_threads(1)
    trainer, name = _trainer(kind, folder)
    # The second process's clock runs ahead.
    ticks = itertools.count(1000.0, 1.0 + number)
    trainer.now = lambda: float(next(ticks))
    trainer.train()
    module, drawn = getattr(trainer, name), torch.rand(3)
    torch.save((list(module.state_dict().values()), trainer.count, drawn), folder / f"told-{number}")


@pytest.mark.parametrize("kind", ["codec", "talker"])
def test_two_processes_take_the_same_steps(tmp_path: Path, kind: str) -> None:
    tone_shard("ada", frames=40).save(tmp_path / "speech/speech-00-0000.npz")
    tone_shard("ada", frames=40, held_out=True).save(tmp_path / "speech/speech-00-0001.npz")
    codec = Codec(CONFIG.codec)
    save_codec(codec, tmp_path / "codec.safetensors")
    tokenizer(tmp_path)
    random_codes().save(tmp_path / "random.npz")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    processes = [
        multiprocessing.get_context("spawn").Process(target=_train, args=(number, port, kind, tmp_path))
        for number in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0, 0]
    (mine, count, drew), (theirs, also, other) = (torch.load(tmp_path / f"told-{number}") for number in (0, 1))
    assert count == also > 2 and all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert not torch.equal(drew, other), "each draws its own"
    assert json.loads((tmp_path / kind / f"{kind}.json").read_text())["steps"] == count
