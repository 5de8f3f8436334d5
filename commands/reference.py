"""docs/commands.md, written from the commands themselves: ``python -m commands.reference > docs/commands.md``."""

from collections.abc import Iterator
from typing import Any

HEAD = """# The hearsay command

Written by `python -m commands.reference`; a test compares. Every verb has `--help`.

Exit codes: 0 done · 1 something failed, the reason is one line on stderr · 2 it was asked for wrongly (option, setting,
model name) or cannot be asked for here · 130 interrupted. `HEARSAY_DEBUG=1` shows where an error came from.
`HEARSAY_MODELS` is a search path of model directories, `HEARSAY_DATA` the data directory of `bench eval`, `HEARSAY_KEY`
the key of the daemon that `--url` names. The daemon's own settings: [operations](operations.md).
"""


def reference() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section for name, verb in _verbs() for section in _section(name, verb))])


def _verbs() -> Iterator[tuple[str, Any]]:
    from typer.main import get_command

    from commands.main import app

    group: Any = get_command(app)
    for name, verb in group.commands.items():
        if hasattr(verb, "commands"):
            yield from ((f"{name} {inner}", command) for inner, command in verb.commands.items())
        else:
            yield name, verb


def _section(name: str, verb: Any) -> Iterator[str]:
    yield f"## hearsay {name}\n"
    yield " ".join(str(verb.help).split()) + "\n"
    yield "```\n" + str(verb.epilog).removeprefix("Example: ") + "\n```\n"
    rows = [row for parameter in verb.params if (row := _row(parameter)) is not None]
    # The daemon's many settings have a page of their own.
    if rows and name != "serve":
        yield "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _row(parameter: Any) -> str | None:
    names: list[str] = [*parameter.opts, *parameter.secondary_opts]
    if "--help" in names:
        return None
    if parameter.param_type_name == "argument":
        names = [str(parameter.metavar or parameter.name)]
    told = " ".join(str(parameter.help or "").split()).replace("|", "\\|")
    return f"| {' '.join(f'`{name}`' for name in names)} | {told} |".replace("`NAME|DIR`", "`NAME` or `DIR`")


if __name__ == "__main__":
    print(reference(), end="")
