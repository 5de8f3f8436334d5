"""The embedding table: its rows are those of the file, from any thread, and the file is closed afterwards."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import manifest as manifests
from engines.embeddings import EmbeddingTable
from engines.llama import GgufError


@pytest.fixture(scope="module")
def path(asr_directory: Path) -> Path:
    """The decoder of the bundled model."""
    return asr_directory / manifests.read_asr(asr_directory).decoder.file


@pytest.fixture(scope="module")
def expected(path: Path) -> np.ndarray:
    """All rows, as the gguf package reads them."""
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "token_embd.weight")
    return gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type)


@given(data=st.data())
def test_rows_are_those_of_the_file(path: Path, expected: np.ndarray, data: st.DataObject) -> None:
    tokens = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=40))
    table = EmbeddingTable(path)
    try:
        rows = table.rows(tokens)
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, expected[np.array(tokens, int)])
    finally:
        table.close()


def test_threads_do_not_mix_their_rows_up(path: Path, expected: np.ndarray) -> None:
    table = EmbeddingTable(path)

    def read(seed: int) -> bool:
        tokens = np.random.default_rng(seed).integers(0, len(expected), 60).tolist()
        return all(np.array_equal(table.rows(tokens), expected[tokens]) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))
    table.close()


def test_a_token_outside_the_vocabulary_is_refused(path: Path, expected: np.ndarray) -> None:
    table = EmbeddingTable(path)
    for token in (-1, len(expected)):
        with pytest.raises(IndexError, match="outside"):
            table.rows([token])
    table.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts descriptors in /proc")
def test_no_descriptor_is_left(path: Path) -> None:
    def open_here() -> int:
        return sum(os.path.realpath(f"/proc/self/fd/{fd}") == str(path.resolve()) for fd in os.listdir("/proc/self/fd"))

    before = open_here()
    closed, forgotten = EmbeddingTable(path), EmbeddingTable(path)
    assert open_here() == before + 2
    closed.close()
    closed.close()
    with pytest.raises(GgufError, match="closed"):
        closed.rows([0])
    del forgotten
    assert open_here() == before


def test_what_is_no_gguf_is_refused(tmp_path: Path) -> None:
    """Whatever is wrong with a file, the error names it."""
    for content in (b"", b"not a model at all", b"GGUF\3\0\0\0" + bytes(8), b"GGUF\3\0\0\0" + b"\xff" * 64):
        (tmp_path / "odd.gguf").write_bytes(content)
        with pytest.raises(GgufError, match=r"odd\.gguf"):
            EmbeddingTable(tmp_path / "odd.gguf")
    with pytest.raises(GgufError, match=r"absent\.gguf"):
        EmbeddingTable(tmp_path / "absent.gguf")
