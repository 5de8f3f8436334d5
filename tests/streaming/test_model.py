"""Loading a model: a failure leaves nothing behind, and a loaded model knows its speed."""

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engines.lane import Cancelled
from engines.load import INTERIM_SECONDS, LARGE_INTERIM_SECONDS
from streaming.engine import SMALL_WEIGHTS
from streaming.model import AsrModel
from streaming.options import OptionError
from tests.clips import Clip
from tests.golden_models import GOLDEN, aligner
from tests.streaming.listening import LIVE, OFFLINE, finish, hear, listen

MAPS = Path("/proc/self/maps")


def weights(folder: Path) -> list[str]:
    """How often the folder's decoder is mapped into this process, where the system tells; a decoder that was not freed
    is."""
    lines = MAPS.read_text().splitlines() if MAPS.exists() else []
    return [line for line in lines if line.endswith(f"{folder}/decoder.gguf")]


def lanes() -> set[int | None]:
    """The threads that models have started."""
    return {thread.ident for thread in threading.enumerate() if thread.name.startswith("hearsay-")}


def truncated(name: str) -> Callable[[Path], None]:
    """Cut the end off a file of a folder."""

    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: len(data) // 2])

    return damage


def another_graph(folder: Path) -> None:
    """Replace the body by a graph that loads and cannot be run."""
    shutil.copyfile(folder / "stem.onnx", folder / "body.onnx")


@pytest.mark.parametrize(
    "damage",
    [
        *(truncated(name) for name in ("decoder.gguf", "body.onnx", "stem.onnx", "mel.npy", "tokenizer.json")),
        another_graph,
    ],
)
def test_a_failed_load_leaves_nothing(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A failed load leaves no thread and no weights in memory."""
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "int8", folder)
    loaded = AsrModel(folder, sessions=1, threads=2)
    assert weights(folder) or not MAPS.exists()
    loaded.close()
    assert not weights(folder)
    damage(folder)
    before = lanes()
    with pytest.raises(Exception):  # each engine has its own
        AsrModel(folder, sessions=1, threads=2)
    assert lanes() == before
    assert not weights(folder)


@pytest.mark.parametrize("name", ["aligner.npy", "decoder.gguf", "tokenizer.json"])
def test_an_aligner_that_cannot_be_loaded_takes_the_model_along(tmp_path: Path, name: str) -> None:
    folder = aligner(tmp_path)
    truncated(name)(folder)
    before = lanes()
    with pytest.raises(Exception):
        AsrModel(GOLDEN / "int8", sessions=1, threads=2, aligner=folder)
    assert lanes() == before
    assert not weights(folder) and not weights(GOLDEN)


@pytest.mark.parametrize("sessions", [0, 257])
def test_more_sessions_than_llama_has_sequences_are_refused(sessions: int) -> None:
    before = lanes()
    with pytest.raises(OptionError, match="sessions: .* outside 1…256"):
        AsrModel(GOLDEN / "int8", sessions=sessions)
    assert lanes() == before


def test_a_closed_model_ends_its_lanes_and_its_listeners() -> None:
    before = lanes()
    model = AsrModel(GOLDEN / "int8", sessions=2, threads=2)
    assert len(lanes() - before) == 2
    listener = model.listener(LIVE)
    model.close()
    model.close()
    assert lanes() == before and model.live == 0
    with pytest.raises(Cancelled):
        listener.step()


def test_the_speed_is_known_before_the_first_session(asr_model: AsrModel, clips: list[Clip]) -> None:
    """Warming up measures the speed, and the work of sessions is counted whether they are open or closed."""
    assert 0 <= asr_model.headroom <= asr_model.sessions - asr_model.live
    before = asr_model.work.finals
    listen(asr_model, clips[0].samples, OFFLINE, [10**9])
    listener = asr_model.listener(OFFLINE)
    hear(listener, clips[1].samples)
    listener.finalize()
    listener.drain()
    assert asr_model.work.finals >= before + 2
    assert asr_model.cost > 0
    finish(listener)


def test_a_session_that_comes_while_the_model_is_warmed_finds_room(clips: list[Clip]) -> None:
    """Even where there is room for one alone; warming takes a sequence of each decoder."""
    for threads in (1, 2):
        with closing(AsrModel(GOLDEN / "int8", sessions=1, threads=threads)) as model:
            lane = model.engine.lane
            taken = [lane.run(model.engine.acquire()) for _ in range(lane.threads)]
            listen(model, clips[0].samples[: 3 * 16_000], OFFLINE, [10**9])
            for one in taken:
                model.engine.release(one)


def test_what_reads_containers_is_loaded_when_one_comes() -> None:
    """It takes 16 MB, which a daemon of callers who send raw audio never needs."""
    code = (
        "import sys; from engines.store import find; from streaming.model import AsrModel; "
        "AsrModel(find('pocket-asr-en'), sessions=1, threads=1).close(); sys.exit('av' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_large_model_is_planned_with_an_interim_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a small one with more: from it follows what a session costs, and so how many are let in."""
    for most, apart in ((SMALL_WEIGHTS, INTERIM_SECONDS), (0, LARGE_INTERIM_SECONDS)):
        monkeypatch.setattr("streaming.engine.SMALL_WEIGHTS", most)
        with closing(AsrModel(GOLDEN / "int8", sessions=1, threads=1)) as model:
            assert model.engine.load.interim_seconds == apart
