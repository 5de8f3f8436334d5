"""The command line: ``hearsay`` and ``python -m hearsay``."""

import sys
from pathlib import Path


def main() -> None:
    """Entry point of the console script."""
    # Installed, the rooms lie in this folder, and import each other by their own names: here they come first, in this
    # process, which is theirs alone. In the repository they lie beside it.
    here = Path(__file__).parent
    if (here / "commands").is_dir():
        sys.path.insert(0, str(here))
    from commands.main import main as run

    run()


if __name__ == "__main__":
    main()
