"""The plan of the rooms, checked: who may know whom."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_KNOW = {
    "engines": set[str](),
    "audio": set[str](),
    "streaming": {"engines", "audio"},
    "codec": {"engines", "audio"},
    "daemon": {"audio", "streaming", "codec", "engines"},
    "clients": set[str](),
    "hearsay": {"commands"},  # and clients, by the name that they have inside it
    "export": {"audio", "engines", "streaming", "codec"},  # verify drives the real runtime
    "training": {"audio", "engines", "codec", "export"},  # texts as the runtime reads them; what ships, read back
    "models": set[str](),
    "bench": {"audio", "engines", "streaming", "codec", "daemon", "clients"},
    "commands": {"audio", "engines", "streaming", "codec", "daemon", "clients", "export", "bench"},
}
"""Room → the rooms it may import. Talking over the wire needs no import; commands are the top floor."""


def imported_rooms(path: Path) -> set[str]:
    """The rooms a module imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found & set(MAY_KNOW)


def modules(root: Path) -> dict[str, Path]:
    """Every module of the rooms and of their tests, by its dotted name."""
    found: dict[str, Path] = {}
    for room in (*MAY_KNOW, "tests"):
        for path in (root / room).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_modules(name: str, path: Path) -> set[str]:
    """Dotted names that a module's imports may mean: inside functions too, and where only a type is wanted."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found - {name}


def circles(root: Path) -> list[list[str]]:
    """Circles of imports below ``root``, each as a chain that ends where it began; no import stands in two of them."""
    names = modules(root)
    graph = {name: imported_modules(name, path) & names.keys() for name, path in names.items()}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
            return found
        except CycleError as error:
            chain: list[str] = error.args[1][::-1]  # it lists what is imported before who imports it
            found.append(chain)
            for name, imported in zip(chain, chain[1:], strict=False):
                graph[name].discard(imported)


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and for types count: who needs a circle's types knows too much."""
    found = circles(ROOT)
    listed = "\n".join(" → ".join(chain) for chain in found)
    assert not found, f"{len(found)} circles of imports:\n{listed}"


def test_circles_are_found_in_every_way_of_importing(tmp_path: Path) -> None:
    """Plain, relative, by the package, in a function, for a type; what only looks like one is none."""
    for name, text in {
        "engines/a.py": "import engines.b",
        "engines/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engines.a import A",
        "audio/c.py": "from . import d",
        "audio/d.py": "def late():\n    from audio import c",
        "codec/e/__init__.py": "from .f import F",
        "codec/e/f.py": "from engines import a",
        "codec/g.py": "from codec.e import F, f\nimport json",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert {frozenset(chain) for chain in circles(tmp_path)} == {
        frozenset({"engines.a", "engines.b"}),
        frozenset({"audio.c", "audio.d"}),
    }
    assert all(chain[0] == chain[-1] for chain in circles(tmp_path))


@pytest.mark.parametrize("room", sorted(MAY_KNOW))
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    """Never the other way round, never a circle."""
    for path in (ROOT / room).rglob("*.py"):
        extra = imported_rooms(path) - MAY_KNOW[room] - {room}
        assert not extra, f"{path.relative_to(ROOT)} imports {sorted(extra)}"


def test_what_is_installed_needs_nothing_that_stays_in_the_repository() -> None:
    """The wheel holds a room only with all that it may know."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    installed: set[str] = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"])
    assert installed == MAY_KNOW.keys() - {"training"}
    assert all(MAY_KNOW[room] <= installed for room in installed)


def test_clients_import_each_other_by_relative_names() -> None:
    """So that they work inside the package ``hearsay`` as well, where no room is importable by its own name."""
    for path in (ROOT / "clients").glob("*.py"):
        assert "clients" not in imported_rooms(path), path.name


EXTRAS = {"daemon/peer.py": "webrtc"}
"""The modules that need an extra; nothing imports them before they are used."""


def test_what_is_imported_is_a_dependency() -> None:
    """Of the installed rooms, whatever is no extra's and no measurement's: a fresh environment lacks nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    owners = packages_distributions()
    for room in sorted(MAY_KNOW.keys() - {"bench", "export", "training"}):
        for path in (ROOT / room).rglob("*.py"):
            extra = project["optional-dependencies"].get(EXTRAS.get(path.relative_to(ROOT).as_posix(), ""), [])
            needed = {re.split(r"[^A-Za-z0-9_.-]", one)[0].lower() for one in (*project["dependencies"], *extra)}
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
                for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - MAY_KNOW.keys():
                    owner = {name.lower().replace("_", "-") for name in owners.get(top, [top])}
                    assert owner & {name.replace("_", "-") for name in needed}, f"{path.relative_to(ROOT)}: {top}"


def test_nothing_at_run_time_needs_torch() -> None:
    """torch, transformers and onnx belong to export and training alone."""
    heavy = {"torch", "transformers", "onnx", "onnxscript", "safetensors", "qwen_asr", "qwen_tts"}
    for room in MAY_KNOW.keys() - {"export", "training"}:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = (
                    [alias.name for alias in node.names]
                    if isinstance(node, ast.Import)
                    else [node.module or ""]
                    if isinstance(node, ast.ImportFrom)
                    else []
                )
                assert not heavy & {name.split(".")[0] for name in names}, path


def test_no_deadline_follows_the_wall_clock() -> None:
    """A clock that is set, by hand or by the network, ends nothing; what is told to clients in Unix time may use it."""
    told = {Path("daemon/openai/realtime/config.py")}
    for room in ("audio", "engines", "streaming", "codec", "daemon", "clients"):
        for path in (ROOT / room).rglob("*.py"):
            if path.relative_to(ROOT) not in told:
                assert "time.time(" not in path.read_text(encoding="utf-8"), path.relative_to(ROOT)


def test_the_core_knows_no_sockets_and_no_event_loop() -> None:
    """streaming, codec and engines are sans-I/O towards clients."""
    for room in ("engines", "streaming", "codec"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            for word in ("import asyncio", "import socket", "import websockets", "import starlette"):
                assert word not in text, f"{path.relative_to(ROOT)}: {word}"


def test_what_needs_an_extra_is_imported_by_need_alone() -> None:
    """The daemon starts without it."""
    program = "import sys, daemon.serve, commands.main; sys.exit(bool({'aiortc', 'aioice'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
