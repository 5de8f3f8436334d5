"""Reference tests are collected only where the official code is installed: `make reference` says so."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WANTED = os.environ.get("HEARSAY_REFERENCE", "")
"""``asr``, ``tts`` or ``funasr``: each needs packages of its own, so each has an environment."""

# Patterns match across folders: "*.py" would leave out tts/ too.
OWN = [path.name for path in Path(__file__).parent.glob("test_*.py")]
OTHERS = {"asr": ["tts*", "funasr*"], "tts": [*OWN, "funasr*"], "funasr": [*OWN, "tts*"]}
collect_ignore_glob = OTHERS.get(WANTED, ["*"])

if WANTED == "asr":
    import torch

    from export import api
    from export.checkpoint import open_checkpoint
    from export.dims import read_dims
    from export.verify.parity import Exported
    from export.verify.reference import Reference
    from tests.reference.official import OTHER, TINY, longer, write_checkpoint

    torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)

    class Case:
        """A random-weight checkpoint, its float32 export, and the official code on it."""

        def __init__(self, root: Path, shape: Any, **options: Any) -> None:
            self.checkpoint = write_checkpoint(root / "checkpoint", shape, **options)
            self.model = api.run(
                self.checkpoint, root / "model", encoder="fp32", decoder="f32", clip=True, name="reference"
            )
            opened = open_checkpoint(self.checkpoint)
            self.reference = Reference(opened, read_dims(opened))
            self.exported = Exported(self.model)

    @pytest.fixture(scope="session")
    def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
        """transformers' layout, tied head, windows of 8 s."""
        case = Case(tmp_path_factory.mktemp("tiny"), TINY, layout="transformers", seed=1)
        yield case
        case.exported.close()

    @pytest.fixture(scope="session")
    def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
        """The original layout in shards, slow tokenizer, every dimension another, a head of its own, windows of 4 s."""
        case = Case(tmp_path_factory.mktemp("other"), OTHER, layout="original", seed=4)
        yield case
        case.exported.close()

    @pytest.fixture(scope="session", params=[(100, "transformers", 6), (200, "original", 8)], ids=["2 s", "4 s"])
    def long_chunks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
        """Chunks of 2 s and of 4 s, in which positions count on further."""
        n_window, layout, seed = request.param
        case = Case(tmp_path_factory.mktemp("long"), longer(n_window, TINY), layout=layout, seed=seed)
        yield case
        case.exported.close()

    @pytest.fixture(params=["tiny", "other"])
    def case(request: pytest.FixtureRequest) -> Case:
        """Each of them."""
        return request.getfixturevalue(request.param)
