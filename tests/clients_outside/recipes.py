"""The recipes of docs/recipes.md, as they stand there, with the addresses of the tests in their place."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support import ROOT, Daemon

PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)


def recipe(title: str, daemon: Daemon, chat: str = "") -> str:
    """The code under a title; ``chat`` is where a chat endpoint is."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    code = code.replace("http://127.0.0.1:8080/v1", chat).replace("YOUR-KEY", daemon.key)
    return code.replace("127.0.0.1:8750", daemon.host)


def made(title: str, daemon: Daemon, chat: str = "") -> Any:
    """What a recipe in Python makes, by its names."""
    names: dict[str, Any] = {}
    exec(recipe(title, daemon, chat), names)
    return names


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, where the recipes' files are."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
