"""The parts of the documents that the code says better: ``make docs`` writes them, a test compares.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; what is around it is written by hand.
"""

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).resolve().parent.parent

ROOMS: Final = ("engines", "streaming", "codec", "daemon")
"""Folders whose files a newcomer needs a list of; elsewhere the names of files tell enough."""

MOST_WORDS: Final = 8
"""Words that are told of a file at most. A first clause that is longer stays whole."""

SHARED: Final = 3
"""An argument or option that so many verbs take with the same meaning is told once for all of them."""

_BLOCK: Final = re.compile(r"(<!-- generated: ([a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """A section for every verb: its help, its example, its arguments and options; what many take is told once."""
    verbs = list(_verbs())
    taken = Counter(row for name, verb in verbs for row in _rows(name, verb))
    shared = [row for row, count in taken.items() if count >= SHARED]
    sections = [section for name, verb in verbs for section in _section(name, verb, shared)]
    return "\n".join([f"## What many take\n\n{_listed(shared)}", *sections])


def releases() -> str:
    """The published checkpoints, a row each."""
    from engines.releases import DOES, RELEASES

    rows = [
        f"| `{one.alias}` | {DOES[one.kind]}{f', {one.about}' if one.about else ''} | {one.bytes / 1e9:.1f} GB | "
        f"{one.languages} |"
        for one in RELEASES
    ]
    return "\n".join(["| | | download | languages |", "|---|---|---|---|", *rows]) + "\n"


def settings() -> str:
    """The daemon's settings that bound nothing, a row each."""
    from daemon.config import table

    return table(bounds=False)


def limits() -> str:
    """The settings that bound something: default, what may be set, what happens beyond."""
    from daemon.config import table

    return table(bounds=True)


def realtime_in() -> str:
    """The events of a client of ``/v1/realtime``."""
    from daemon.openai.realtime import client_events

    return _events(client_events)


def realtime_out() -> str:
    """The events of the daemon there."""
    from daemon.openai.realtime import server_events

    return _events(server_events)


def _events(module: ModuleType) -> str:
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    tags = [str(one.__struct_config__.tag) for one in found if one.__struct_config__.tag_field == "type"]
    names = ", ".join(f"`{tag}`" for tag in tags if "." in tag or tag == "error")
    return textwrap.fill(names, 100, break_long_words=False, break_on_hyphens=False) + "\n"


def files() -> str:
    """Every file and inner folder of the rooms that do the work, with the beginning of its docstring."""
    return "\n".join(line for room in ROOMS for line in _room(ROOT / room))


PARTS: Final[dict[str, Callable[[], str]]] = {
    "commands": commands,
    "releases": releases,
    "settings": settings,
    "limits": limits,
    "files": files,
    "realtimein": realtime_in,
    "realtimeout": realtime_out,
}


def pages() -> dict[Path, str]:
    """The text of each page that has such parts, with the parts as the code has them now.

    Raises:
        KeyError: a page asks for a part that nobody writes.
    """
    found: dict[Path, str] = {}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            found[path] = _BLOCK.sub(lambda block: f"{block[1]}\n{PARTS[block[2]]()}\n{block[3]}", text)
    return found


def _verbs() -> Iterator[tuple[str, Any]]:
    from typer.main import get_command

    from commands.main import app

    group: Any = get_command(app)
    for name, verb in group.commands.items():
        if hasattr(verb, "commands"):
            yield from ((f"{name} {inner}", command) for inner, command in verb.commands.items())
        else:
            yield name, verb


def _section(name: str, verb: Any, shared: list[str]) -> Iterator[str]:
    yield f"## hearsay {name}\n"
    yield " ".join(str(verb.help).split()) + "\n"
    yield "```\n" + str(verb.epilog).removeprefix("Example: ") + "\n```\n"
    rows = _rows(name, verb)
    also = " ".join(row.split(": ")[0].removeprefix("- ") for row in rows if row in shared)
    own = [row for row in rows if row not in shared]
    if rows:
        yield _listed([*own, f"- {also}"] if also else own)


def _rows(name: str, verb: Any) -> list[str]:
    """A verb's arguments and options. The daemon's many settings have a page of their own."""
    parameters: list[Any] = [one for one in verb.params if not getattr(one, "hidden", False)]
    if name in ("serve", "cluster"):
        from daemon.config import TYPES

        parameters = [one for one in parameters if one.name not in TYPES and one.name != "config"]
    return [row for parameter in parameters if (row := _row(parameter)) is not None]


def _listed(rows: list[str]) -> str:
    return "\n".join(rows) + "\n"


def _row(parameter: Any) -> str | None:
    names: list[str] = [*parameter.opts, *parameter.secondary_opts]
    if "--help" in names:
        return None
    if parameter.param_type_name == "argument":
        names = [str(parameter.metavar or parameter.name)]
    told = " ".join(str(parameter.help or "").split())
    return f"- {' '.join(f'`{name}`' for name in names)}: {told}".replace("`NAME|DIR`", "`NAME` or `DIR`")


def _room(folder: Path) -> Iterator[str]:
    told: dict[str, str] = {}
    for path in [*sorted(folder.glob("*.py")), *sorted(folder.rglob("*/__init__.py"))]:
        inner = path.parent if path.name == "__init__.py" else path
        if inner != folder:
            docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            told[inner.relative_to(folder).as_posix() + "/" * inner.is_dir()] = brief(docstring or "")
    width = max(map(len, told))
    yield f"### {folder.name}/\n"
    yield "\n".join(["```text", *(f"{name:{width}}  {text}".rstrip() for name, text in told.items()), "```\n"])


def brief(docstring: str) -> str:
    """The first sentence of ``docstring``; of one with more than ``MOST_WORDS`` words its first clauses."""
    # The first line, or what its sentence needs of the next ones.
    found = re.match(r".*[.!?]$|(?s:.*?[.!?])(?=\s)|", docstring, re.MULTILINE)
    sentence = " ".join((found or [""])[0].split()).replace("`", "").removesuffix(".")
    clauses = re.split(r"(?=[:;,.] | \()", sentence)
    for count in range(len(clauses), 1, -1):
        if len((text := "".join(clauses[:count])).split()) <= MOST_WORDS:
            return text
    return clauses[0]


def main() -> None:
    """Write the pages whose parts differ from what the code says."""
    for path, text in pages().items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
