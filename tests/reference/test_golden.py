"""The golden files are what this code writes.

The random weights and the table of positions go through exp, sin and cos, whose last bit depends on the processor, so
floats are held to a millionth of the largest of their tensor, and what is rounded to a step in one of a thousand.
"""

import json
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
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
    hold_decoders(rewritten / name / "decoder.gguf", COMMITTED / name / "decoder.gguf")
    for file in ("stem.onnx", "body.onnx", "clip.onnx"):
        hold_graphs(rewritten / name / file, COMMITTED / name / file)


@pytest.mark.parametrize("frames", golden.CHUNKS)
def test_stems_of_longer_chunks_are_reproduced(rewritten: Path, frames: int) -> None:
    """The graph and its weights."""
    hold_graphs(rewritten / f"stem-{frames}.onnx", COMMITTED / f"stem-{frames}.onnx")


def hold_graphs(mine: Path, committed: Path) -> None:
    """Same nodes, same weights."""
    new, old = onnx.load(mine), onnx.load(committed)
    assert [node.op_type for node in new.graph.node] == [node.op_type for node in old.graph.node]
    for ours, theirs in zip(new.graph.initializer, old.graph.initializer, strict=True):
        array, wanted = onnx.numpy_helper.to_array(ours), onnx.numpy_helper.to_array(theirs)
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape), ours.name
        if np.issubdtype(array.dtype, np.floating):
            hold_floats(array, wanted, ours.name)
        elif array.dtype.itemsize == 1 and array.ndim > 1:
            hold_steps(array.astype(np.float64) - wanted, 1, ours.name)
        else:
            assert np.array_equal(array, wanted), ours.name


def hold_decoders(mine: Path, committed: Path) -> None:
    """Same fields, same tensors in the same formats, same weights."""
    new, old = gguf.GGUFReader(mine), gguf.GGUFReader(committed)
    assert {k: f.contents() for k, f in new.fields.items()} == {k: f.contents() for k, f in old.fields.items()}
    for ours, theirs in zip(new.tensors, old.tensors, strict=True):
        assert (ours.name, ours.tensor_type, ours.shape.tolist()) == (
            theirs.name,
            theirs.tensor_type,
            theirs.shape.tolist(),
        )
        array, wanted = (gguf.quants.dequantize(each.data, each.tensor_type) for each in (ours, theirs))
        if ours.tensor_type == gguf.GGMLQuantizationType.F32:
            hold_floats(array, wanted, ours.name)
        else:
            assert ours.tensor_type == gguf.GGMLQuantizationType.Q8_0
            hold_steps(array - wanted, np.abs(wanted).max() / 127, ours.name)


def hold_floats(array: npt.NDArray[np.floating], wanted: npt.NDArray[np.floating], name: str) -> None:
    """Equal but for the last bits."""
    np.testing.assert_allclose(array, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max(initial=0), err_msg=name)


def hold_steps(difference: npt.NDArray[np.floating], step: float, name: str) -> None:
    """Rounded alike: one value in a thousand, or one, may have fallen to the other side, a step away."""
    other = np.abs(difference[difference != 0])
    assert len(other) <= max(1, difference.size // 1000), name
    assert other.max(initial=0) <= 1.01 * step, name


def test_the_golden_files_are_small() -> None:
    """5 MB for all rooms together."""
    assert sum(path.stat().st_size for path in COMMITTED.parent.rglob("*") if path.is_file()) < 5_000_000
