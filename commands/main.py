"""The ``hearsay`` command: one verb a file, each imported here, none of them heavy before it is called.

Exit codes: 0 done; 1 something failed (the reason is one line on stderr); 2 it was asked for wrongly (option, setting,
model name) or cannot be asked for here; 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.main import get_command

from commands import bench, captions, cluster, demo, doctor, export, mcp, models, say, serve, transcribe, voices
from commands.console import complain, culprit, is_expected, reason, version

app = typer.Typer(
    name="hearsay",
    help="One offline daemon that hears and says.",
    epilog="Start with: hearsay demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hearsay {version()}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    del show_version


serve.add_to(app)
cluster.add_to(app)
transcribe.add_to(app)
captions.add_to(app)
say.add_to(app)
demo.add_to(app)
doctor.add_to(app)
mcp.add_to(app)
app.add_typer(voices.app, name="voices")
app.add_typer(models.app, name="models")
app.add_typer(export.app, name="export")
app.add_typer(bench.app, name="bench")


def _take_only_texts(command: Any) -> None:
    """Have arguments that are texts refused where their bytes are not UTF-8. The name of a file may be any bytes."""
    for parameter in command.params:
        parameter.callback = parameter.callback or _text
    for verb in getattr(command, "commands", {}).values():
        _take_only_texts(verb)


def _text(context: Any, parameter: Any, value: Any) -> Any:
    given: Sequence[Any] = value if type(value) in (list, tuple) else (value,)
    for text in given:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise typer.BadParameter("it is not UTF-8", context, parameter) from None
    return value


def main() -> None:
    """The entry point of the console script."""
    stdout: Any = sys.stdout  # stdout is None where it was closed.
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # The name of a file need not be text.
    command = get_command(app)
    _take_only_texts(command)
    try:
        command()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of stdout has gone (`| head`), and the interpreter would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as raised:
        error = culprit(raised)
        code = is_expected(error)
        if code is None or os.environ.get("HEARSAY_DEBUG"):
            raise
        complain(reason(error))
        sys.exit(code)


if __name__ == "__main__":
    main()
