"""Checkpoints of the official classes with random weights, their exports, and the official models themselves."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from export.tts import api
from tests.reference.tts import official
from tests.reference.tts.stepper import Stepper

torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)


@dataclass(frozen=True)
class Case:
    """One checkpoint: the official model and codec, its directory, its float32 model directory."""

    model: Any
    codec: Any
    checkpoint: Path
    exported: Path


def make(
    root: Path,
    talker: dict[str, Any],
    predictor: dict[str, Any],
    kind: str,
    seed: int,
    decoder: dict[str, Any] = official.SMALL_CODEC,
) -> Case:
    """A checkpoint of random weights and its export."""
    codec = official.codec_model(decoder, seed)
    config = official.tts_config(talker, predictor, decoder, kind, "1b7")
    model = official.tts_model(config, seed)
    checkpoint = official.save_tts(model, codec, root / "checkpoint")
    return Case(model, codec, checkpoint, api.run(checkpoint, root / "model", codec="fp32", decoder="f32"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """CustomVoice; the predictor is narrower than the talker, as in 1.7B."""
    root = tmp_path_factory.mktemp("tiny")
    return make(root, official.TINY_TALKER, official.TINY_PREDICTOR, "custom_voice", 3, official.TINY_CODEC)


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """VoiceDesign; the predictor is as wide as the talker, as in 0.6B; rows fit every quantisation."""
    root = tmp_path_factory.mktemp("wide")
    return make(root, official.WIDE_TALKER, official.WIDE_PREDICTOR, "voice_design", 4)


@pytest.fixture(params=["tiny", "wide"])
def case(request: pytest.FixtureRequest) -> Case:
    """Each of them."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def stepper(tiny: Case) -> Stepper:
    """The exported codec decoder of ``tiny``."""
    return Stepper(tiny.exported)
