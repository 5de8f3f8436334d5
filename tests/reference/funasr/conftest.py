"""Fun-ASR-Nano checkpoints of the official classes, their float32 exports, and the official code on them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from engines import manifest as manifests
from engines.onnx import Graph
from export import api
from tests.reference.funasr.official import OTHER, TINY, Official, write_checkpoint

torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)


class Case:
    """A checkpoint, its float32 model directory and that one's graph, the official code."""

    def __init__(self, root: Path, shape: Mapping[str, Any], seed: int) -> None:
        self.checkpoint = write_checkpoint(root / "checkpoint", shape, seed=seed)
        self.model = api.run(self.checkpoint, root / "model", encoder="fp32", decoder="f32", clip=False, name="nano")
        self.manifest = manifests.read_asr(self.model)
        self.graph = Graph(self.model / self.manifest.encoder.body, threads=2, provider="cpu")
        self.official = Official(self.checkpoint)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Low frame rate, a second encoder, a CTC head, mean and variance, a tied head."""
    return Case(tmp_path_factory.mktemp("tiny"), TINY, 1)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Every dimension another."""
    return Case(tmp_path_factory.mktemp("other"), OTHER, 2)


@pytest.fixture(params=["tiny", "other"])
def case(request: pytest.FixtureRequest) -> Case:
    """Each of them."""
    return request.getfixturevalue(request.param)
