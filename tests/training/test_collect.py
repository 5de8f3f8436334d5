"""What a run left comes back in portions, and each state is whole though the run goes on writing."""

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from training.card.collect import COPIES, FILES, collect
from training.parts import TOLD, load_parts, save_parts


def leave(out: Path, name: str, steps: int, count: int = 3) -> dict[str, torch.Tensor]:
    """Write a state in parts of 14 MiB."""
    tensors = {f"t{i}": torch.full((13 << 18,), float(steps + i)) for i in range(count)}
    save_parts(out / name, tensors, {"steps": steps})
    return tensors


def portions(out: Path, back: Path, wanted: int) -> None:
    """Make so many calls, and put together what each brings."""
    for _ in range(wanted):
        to = out.parent / f"call-{len(list(out.parent.iterdir()))}"
        collect(out, to)
        files = [path for path in to.rglob("*") if path.is_file()]
        assert len(files) <= 2 * FILES and sum(path.stat().st_size for path in files) < 64 << 20
        for path in files:
            place = back / path.relative_to(to)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())


def test_a_state_comes_back_whole_while_another_one_takes_its_place(tmp_path: Path) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    first = leave(out, "state", 100, 6)
    (out / "log").write_text("a line\n")
    portions(out, back, 1)
    assert (back / "log").read_text() == "a line\n"
    with pytest.raises(ValueError, match="without part-"):
        load_parts(back / "state-100")
    second = leave(out, "state", 200)
    weights = leave(out, "talker/weights", 200)
    portions(out, back, 3)
    for name, given in (("state-100", first), ("state-200", second), ("talker-weights-200", weights)):
        found, told = load_parts(back / name)
        assert told == {"steps": int(name.rpartition("-")[2])}
        assert found.keys() == given.keys() and all(torch.equal(found[k], v) for k, v in given.items())
    assert collect(out, tmp_path / "nothing") == 0
    leave(out, "state", 300, 6)
    portions(out, back, 1)
    last = leave(out, "state", 400)
    (out / "done").touch()
    portions(out, back, 1)
    assert load_parts(back / "state-400")[0].keys() == last.keys(), "what is older is given up at the end"
    with pytest.raises(ValueError, match="without part-"):
        load_parts(back / "state-300")


def test_weights_come_first_and_a_call_has_few_copies(tmp_path: Path) -> None:
    for name in ("state", "a/state", "weights"):
        leave(tmp_path / "out", name, 5, 1)
    collect(tmp_path / "out", tmp_path / "call")
    made = sorted(path.name for path in (tmp_path / "call").iterdir())
    assert len(made) == COPIES and "weights-5" in made
    assert json.loads((tmp_path / "call" / "weights-5" / TOLD).read_text())["told"] == {"steps": 5}
