"""The recordings that ship with hearsay: ``models/samples/samples.json`` and the files it names."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from commands.console import Failure
from engines.store import BUNDLED

DIRECTORY = BUNDLED / "samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """A bundled recording: its file, what is said in it, who made it, and under which licence it is."""

    path: Path
    text: str
    credit: str


def sample(name: str) -> Sample:
    """The recording of that name.

    Raises:
        Failure: it is not there.
    """
    index = DIRECTORY / "samples.json"
    try:
        entries: Any = json.loads(index.read_text(encoding="utf-8"))
        entry = next(entry for entry in entries if Path(entry["file"]).stem == name)
        path = DIRECTORY / Path(entry["file"]).name
        return Sample(path, str(entry["text"]), str(entry["credit"]))
    except OSError as error:
        raise Failure(f"the bundled recordings are missing: {error}") from None
    except (StopIteration, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{index}: no usable entry for {name!r} ({error!r})") from None
