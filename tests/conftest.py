"""What every room's tests share: the embedded model and clips that no model was trained on."""

import gc
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from codec.model import TtsModel
from engines.store import find
from streaming.model import AsrModel
from tests.clips import DATA, Clip, read_clip

# Examples run real models, on machines that are busy or slow: how long one takes says nothing about it.
settings.register_profile("hearsay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hearsay")

# Whoever starts tests in the background of a script leaves SIGINT ignored, and every process of theirs inherits that;
# some of them are to be interrupted.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

APART = ("soak", "reference", "clients_outside", "cluster", "test_bundle.py")
"""What runs only when it is named: it takes long, or needs torch, other people's clients or every wheel once more."""


LONGEST = (
    "reference/test_kept.py", "reference/test_keep.py", "streaming/test_containers.py", "commands/test_models.py",
    "commands/test_bench.py", "commands/test_demo.py", "bench/test_identity.py", "bench/test_eval.py",
    "bench/test_live.py", "daemon/test_drain.py", "daemon/test_serve.py", "daemon/openai/test_realtime_attack.py",
    "codec/test_decoder.py", "codec/test_codes.py", "training/tts/test_cloning.py", "training/asr/test_train.py",
)  # fmt: skip
"""Files that take half a minute and more. They come first: where several processes take a file at a time, one that is
begun last would be what all the others wait for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put ``LONGEST`` before the others, which stay in their order."""
    here, places = Path(__file__).parent, {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return places.get(item.path.relative_to(here).as_posix(), len(places)) if here in item.path.parents else -1

    items.sort(key=place)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave what stands in ``APART`` out of a run that does not name them."""
    here = Path(__file__).parent
    for name in APART:
        folder = here / name
        if collection_path == folder or folder in collection_path.parents:
            asked = [config.invocation_params.dir / str(argument).split("::")[0] for argument in config.args]
            if not any(folder == path or folder in path.parents for path in asked):
                return True
    return None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Where CI is set, a test that was skipped is a test that did not hold."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and exitstatus == 0 and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def asr_directory() -> Path:
    """The embedded hearing model's directory."""
    return find("pocket-asr-en")


@pytest.fixture(scope="session")
def tts_directory() -> Path:
    """The embedded speaking model's directory."""
    return find("pocket-tts-en")


@pytest.fixture(scope="session")
def asr_model(asr_directory: Path) -> Iterator[AsrModel]:
    """The embedded hearing model, loaded once for the whole run."""
    model = AsrModel(asr_directory, sessions=20)
    yield model
    model.close()


@pytest.fixture(scope="session")
def tts_model(tts_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TtsModel]:
    """The embedded speaking model, loaded once for the whole run; stored voices in a directory of the tests."""
    model = TtsModel(tts_directory, sessions=10, voices=tmp_path_factory.mktemp("voices"))
    yield model
    model.close()


@pytest.fixture(scope="module", autouse=True)
def nothing_unclosed() -> Iterator[None]:
    """What a file's tests left unclosed is collected with that file, and so blamed on it, not on a later one."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def nothing_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that shares a model leaves no session of it open; a daemon has seconds to see that its client went."""
    shared = [request.getfixturevalue(name) for name in ("asr_model", "tts_model") if name in request.fixturenames]
    before = [model.live for model in shared]
    yield
    deadline = time.monotonic() + 60
    while any(model.live > held for model, held in zip(shared, before, strict=True)):
        assert time.monotonic() < deadline, "sessions are open that were not before the test"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def clips() -> list[Clip]:
    """All short test clips, in the order of the index."""
    rows = [json.loads(line) for line in (DATA / "index.jsonl").read_text().splitlines()]
    return [read_clip(DATA / row["file"], row["text"], row["corpus"]) for row in rows if row["seconds"] < 60]


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio only."""
    return "asyncio"
