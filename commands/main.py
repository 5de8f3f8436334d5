"""The ``hearsay`` command."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


def main() -> None:
    """Entry point of the console script."""
    app()
