"""``hearsay serve``: the daemon, until SIGTERM or Ctrl-C. Its flags are the settings of ``daemon.config``."""

import inspect
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from commands.console import prose

HELP = prose("""
Run the daemon, with a web page at /. With --wyoming-port it speaks Home Assistant's protocol too.

Every setting is also an environment variable (HEARSAY_PORT) and a line of the TOML file (port = 8750); a flag wins over
the environment, the environment over the file. SIGTERM or Ctrl-C drains; a second signal ends at once.
""")
EPILOG = "Example: hearsay serve --port 8750 --asr-model pocket-asr-en"


def add_to(app: typer.Typer) -> None:
    """Register the verb, with one flag for each setting."""
    app.command("serve", help=HELP, epilog=EPILOG)(with_flags(_serve))


def _serve(config: Path | None, **flags: Any) -> None:
    from daemon.config import load
    from daemon.serve import serve

    raise typer.Exit(serve(load(config, flags=flags)))


def with_flags(function: Any, more: Sequence[inspect.Parameter] = ()) -> Any:
    """``function`` with a signature that Typer can read: ``more``, ``--config`` and the settings, all optional."""
    from daemon.config import TYPES, Settings, flag

    where = Annotated[
        Path | None, typer.Option("--config", envvar="HEARSAY_CONFIG", metavar="FILE", help="TOML file of settings.")
    ]
    parameters = [*more, inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=where)]
    for setting in fields(Settings):
        kind = TYPES[setting.name]
        default = setting.default
        shown = f" [default: {default}]" if default not in ("", ()) and kind is not bool else ""
        name = f"{flag(setting.name)}/{flag('no-' + setting.name)}" if kind is bool else flag(setting.name)
        annotation: Any = list[str] | None if kind == tuple[str, ...] else kind | None
        option = typer.Option(name, help=setting.metadata["help"].replace("`", "") + shown, show_default=False)
        parameters.append(
            inspect.Parameter(
                setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, option]
            )
        )

    def command(**values: Any) -> None:
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
