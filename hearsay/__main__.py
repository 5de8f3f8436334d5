"""The command line, as ``hearsay`` or ``python -m hearsay``."""

import os
import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the command line: the entry point of the console script."""
    if sys.argv[1:2] == ["serve"]:
        _end_quietly()
    # The rooms import each other by their own names. In an installed package they lie in this folder, which therefore
    # comes first on the path of this process. In the repository they lie beside it, where Python finds them.
    here = Path(__file__).parent
    if (here / "commands").is_dir():
        sys.path.insert(0, str(here))
    from commands.main import main as run

    run()


def _end_quietly() -> None:
    """Let SIGTERM and Ctrl-C end a daemon with status 0 while it still imports its libraries, which takes seconds. It
    has no session then. The server sets handlers of its own later."""

    def end(number: int, frame: object) -> None:
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


if __name__ == "__main__":
    main()
