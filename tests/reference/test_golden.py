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
        models = [onnx.load(directory / name / file) for directory in (rewritten, COMMITTED)]
        assert [node.op_type for node in models[0].graph.node] == [node.op_type for node in models[1].graph.node]
        for mine, old in zip(models[0].graph.initializer, models[1].graph.initializer, strict=True):
            assert np.array_equal(onnx.numpy_helper.to_array(mine), onnx.numpy_helper.to_array(old)), mine.name


def test_the_golden_files_are_small() -> None:
    """5 MB for all rooms together."""
    assert sum(path.stat().st_size for path in COMMITTED.parent.rglob("*") if path.is_file()) < 5_000_000
