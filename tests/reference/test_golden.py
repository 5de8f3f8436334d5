"""The golden files are what this code writes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from engines import manifest as manifests
from tests.reference import golden

pytestmark = pytest.mark.reference

COMMITTED = Path(__file__).parent.parent / "golden" / "asr"


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written anew."""
    directory = tmp_path_factory.mktemp("golden") / "asr"
    golden.write(directory)
    return directory


def test_official_arrays_are_reproduced(rewritten: Path) -> None:
    """Ids and tokens exactly; floats as closely as another processor sums them."""
    committed, new = np.load(COMMITTED / "official.npz"), np.load(rewritten / "official.npz")
    assert committed.files == new.files
    for name in committed.files:
        if np.issubdtype(new[name].dtype, np.integer):
            assert np.array_equal(committed[name], new[name]), name
        else:
            np.testing.assert_allclose(
                new[name], committed[name], rtol=0, atol=2e-4 * np.abs(new[name]).max(), err_msg=name
            )
    assert json.loads((COMMITTED / "prompts.json").read_text()) == json.loads((rewritten / "prompts.json").read_text())


@pytest.mark.parametrize("name", ["fp32", "int8"])
def test_model_directories_are_reproduced(rewritten: Path, name: str) -> None:
    """Same files, same graphs node by node, same weights."""
    ours, theirs = manifests.read_asr(rewritten / name), manifests.read_asr(COMMITTED / name)
    assert ours.files.keys() == theirs.files.keys()
    assert (ours.encoder, ours.decoder, ours.mel, ours.tokenizer) == (
        theirs.encoder,
        theirs.decoder,
        theirs.mel,
        theirs.tokenizer,
    )
    assert ours.files["decoder.gguf"] == theirs.files["decoder.gguf"]
    for file in ("stem.onnx", "body.onnx", "clip.onnx"):
        hold_graphs(rewritten / name / file, COMMITTED / name / file)


@pytest.mark.parametrize("frames", golden.CHUNKS)
def test_stems_of_longer_chunks_are_reproduced(rewritten: Path, frames: int) -> None:
    """The graph and its weights."""
    hold_graphs(rewritten / f"stem-{frames}.onnx", COMMITTED / f"stem-{frames}.onnx")


def test_the_body_with_a_phone_head_is_reproduced(rewritten: Path) -> None:
    """The graph and its weights."""
    hold_graphs(rewritten / "body-phones.onnx", COMMITTED / "body-phones.onnx")


def hold_graphs(mine: Path, committed: Path) -> None:
    """Same nodes, same weights."""
    new, old = onnx.load(mine), onnx.load(committed)
    assert [node.op_type for node in new.graph.node] == [node.op_type for node in old.graph.node]
    for ours, theirs in zip(new.graph.initializer, old.graph.initializer, strict=True):
        assert np.array_equal(onnx.numpy_helper.to_array(ours), onnx.numpy_helper.to_array(theirs)), ours.name


def test_the_golden_files_are_small() -> None:
    """5 MB for all rooms together."""
    assert sum(path.stat().st_size for path in COMMITTED.parent.rglob("*") if path.is_file()) < 5_000_000
