"""Arrays and tokenizers that cannot be read raise one kind of error, which names the file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.files import load_array, load_floats, load_tokenizer
from engines.manifest import ManifestError

TOKENIZER = Path(__file__).parents[1] / "golden" / "speaking" / "tokenizer.json"


def test_arrays_come_as_they_were_written(tmp_path: Path) -> None:
    """Arrays come back mapped or read, and floats as contiguous float32."""
    written = np.asfortranarray(np.arange(12, dtype=np.float16).reshape(3, 4))
    np.save(tmp_path / "a.npy", written)
    for array in (load_array(tmp_path / "a.npy"), load_array(tmp_path / "a.npy", mapped=True)):
        assert array.dtype == np.float16
        np.testing.assert_array_equal(array, written)
    floats = load_floats(tmp_path / "a.npy")
    assert floats.dtype == np.float32 and floats.flags.c_contiguous
    np.testing.assert_array_equal(floats, written)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"not an array", b"\x93NUMPY\x01\x00\x06\x00({[\n\n\n"])
def test_what_is_no_array_is_refused(tmp_path: Path, content: bytes, mapped: bool) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ManifestError, match=r"a\.npy: no \.npy file"):
        load_array(tmp_path / "a.npy", mapped=mapped)


def test_other_files_in_an_arrays_place_are_refused(tmp_path: Path) -> None:
    """An archive, pickled objects, integers in place of floats and an empty file are refused."""
    np.savez(tmp_path / "archive", a=np.zeros(3))
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    np.save(tmp_path / "numbers.npy", np.arange(3))
    for name, reason in (
        ("archive.npz", "an archive"),
        ("objects.npy", "no .npy file"),
        ("numbers.npy", "floats expected, found int64"),
        ("absent.npy", "No such file"),
    ):
        with pytest.raises(ManifestError, match=f"{name}: .*{reason}"):
            load_floats(tmp_path / name)


@given(data=st.data(), mapped=st.booleans())
def test_an_array_that_was_damaged_anywhere_is_an_array_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, mapped: bool
) -> None:
    """A file that is cut off, or has another byte, gives an array or a ManifestError, never another error."""
    path = tmp_path_factory.mktemp("damaged") / "a.npy"
    np.save(path, np.zeros((4, 5), np.float32))
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        load_array(path, mapped=mapped)
    except ManifestError as error:
        assert str(path) in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe", TOKENIZER.read_bytes()[:-100], TOKENIZER.read_bytes()[100:]]
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ManifestError, match=r"tokenizer\.json: no tokenizer\.json \(.+\)"):
        load_tokenizer(tmp_path / "tokenizer.json")
    assert load_tokenizer(TOKENIZER).get_vocab_size() > 500


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="absent"):
        load_tokenizer(tmp_path / "absent")
