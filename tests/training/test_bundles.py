"""Files go through bundles of any size and come back, whatever the order in which they come."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from training.bundles import pack, unpack

SIZES = st.lists(st.integers(0, 120_000), min_size=1, max_size=5)


@settings(max_examples=30)
@given(SIZES, st.integers(30_000, 90_000), st.integers(0, 1000))
def test_files_come_back_from_bundles(sizes: list[int], most: int, seed: int) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        given = {f"a/{i}.bin": chance.randbytes(size) for i, size in enumerate(sizes)}
        for name, data in given.items():
            (root / name.replace("/", "-")).write_bytes(data)
        bundles = pack({name: root / name.replace("/", "-") for name in given}, root / "out", "hearing", most)
        assert all(bundle.stat().st_size <= most for bundle in bundles)
        assert [bundle.name for bundle in bundles] == [f"hearing-{i}.tar" for i in range(len(bundles))]
        chance.shuffle(bundles)
        for bundle in bundles:
            unpack(bundle, root / "there")
        found = {str(path.relative_to(root / "there")): path.read_bytes() for path in (root / "there").rglob("*.bin")}
        assert found == given
        assert not list((root / "there").rglob("*-of-*"))


def test_what_is_not_whole_waits(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(200_000))
    first, *_ = pack({"large": tmp_path / "large"}, tmp_path / "out", "x", 100_000)
    unpack(first, tmp_path / "there")
    [alone] = (tmp_path / "there").iterdir()
    assert alone.name == "large.0-of-200000" and 70_000 < alone.stat().st_size < 80_000
