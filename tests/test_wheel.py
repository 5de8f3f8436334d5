"""What others install: one package, that is nobody else's, with everything in it that it runs on."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
THEIRS = ("bench", "clients", "daemon", "models")
"""Packages that somebody else has installed before."""
USER = """
from hearsay import AsyncStream, Disconnected, Results, Speech, Stream, StreamOptions, Voice, transcribe, voices


def finals(url: str, pcm: bytes) -> list[str]:
    with Stream(url, StreamOptions(sample_rate=16000)) as stream:
        stream.send(pcm)
        stream.close_stream()
        return [event.text for event in stream if isinstance(event, Results) and event.is_final]


async def losses(stream: AsyncStream) -> list[float]:
    return [event.wait async for event in stream if isinstance(event, Disconnected)]


chosen: list[Voice] = voices("http://127.0.0.1:8750")
print(Speech, transcribe, finals, losses, chosen)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages: the wheel's, and other people's."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    for name in THEIRS:
        (folder / "site" / name).mkdir()
        (folder / "site" / name / "__init__.py").write_text("MINE = False\n")
    return folder / "site"


def run(site: Path, code: str, tmp_path: Path) -> str:
    """What Python code prints where the wheel is installed, the repository is not, and all it needs is."""
    before = f"import sys\nsys.path = [{str(site)!r}, *(p for p in sys.path if {str(ROOT)!r} != p)]\n"
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", before + code],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_installs_one_package(site: Path) -> None:
    """And nothing that stays in the repository."""
    installed = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} - set(THEIRS)
    assert installed == {"hearsay"}
    rooms = {path.name for path in (site / "hearsay").iterdir()}
    assert not rooms & {"tests", "training", "tools", "docs"}
    assert {"py.typed", "clients", "daemon", "models"} <= rooms


def test_the_client_stands_beside_packages_of_the_same_names(site: Path, tmp_path: Path) -> None:
    """It loads nothing but itself: no model, no daemon, no array library."""
    names = ", ".join(THEIRS)
    code = f"""
import {names}, hearsay, json
assert not any(module.MINE for module in ({names}))
assert hearsay.__file__.startswith({str(site)!r}) and all(hasattr(hearsay, name) for name in hearsay.__all__)
heavy = {{"numpy", "onnxruntime", "starlette", "rich"}}
print(json.dumps(sorted(heavy & {{name.split(".")[0] for name in sys.modules}})))
"""
    assert json.loads(run(site, code, tmp_path)) == []


def test_the_command_runs_from_it(site: Path, tmp_path: Path) -> None:
    """Hearing a file with the model in the box, whoever's ``models`` is installed too."""
    recording = ROOT / "models" / "samples" / "demo.opus"
    code = f"""
sys.argv = ["hearsay", "transcribe", {str(recording)!r}]
from hearsay.__main__ import main
try:
    main()
finally:
    import streaming.model, models
    assert all(module.__file__.startswith({str(site / "hearsay")!r}) for module in (streaming.model, models))
"""
    assert "printed book" in run(site, code, tmp_path)


def test_its_types_are_known(site: Path, tmp_path: Path) -> None:
    """A program of a user passes the strict type checker."""
    (tmp_path / "user.py").write_text(USER)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(site)], "include": ["user.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "-p", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout
