"""The plan of the rooms, checked: who may know whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_KNOW = {
    "engines": set[str](),
    "streaming": {"engines"},
    "codec": {"engines"},
    "daemon": {"streaming", "codec", "engines"},
    "clients": set[str](),
    "export": {"engines", "streaming", "codec"},  # verify drives the real runtime
    "training": {"engines"},
    "models": set[str](),
    "bench": {"engines", "streaming", "codec", "daemon", "clients", "training"},  # mends clips as training does
    "commands": {"engines", "streaming", "codec", "daemon", "clients", "export", "bench"},
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


@pytest.mark.parametrize("room", sorted(MAY_KNOW))
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    """Never the other way round, never a circle."""
    for path in (ROOT / room).rglob("*.py"):
        extra = imported_rooms(path) - MAY_KNOW[room] - {room}
        assert not extra, f"{path.relative_to(ROOT)} imports {sorted(extra)}"


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


def test_the_core_knows_no_sockets_and_no_event_loop() -> None:
    """streaming, codec and engines are sans-I/O towards clients."""
    for room in ("engines", "streaming", "codec"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            for word in ("import asyncio", "import socket", "import websockets", "import starlette", "import uvicorn"):
                assert word not in text, f"{path.relative_to(ROOT)}: {word}"
