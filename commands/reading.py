"""``hearsay say --dry-run``: a text as it would be read, without a voice."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from commands.console import Failure, complain

if TYPE_CHECKING:
    from codec.options import SpeakOptions


def tell(text: str, directory: Path, options: "SpeakOptions", *, as_json: bool) -> None:
    """Print the words of ``text`` as the model in ``directory`` would read them, a piece a line; as JSON their sounds
    and the pauses too. What it has no sounds for is complained of.

    Raises:
        ManifestError: the directory holds no speaking model, or its dictionary cannot be read.
        OptionError: the model takes no lexicon, or does not have the language or the voice.
        Failure: the text holds nothing that can be spoken.
    """
    from codec.readings import read_by

    found = read_by(directory, text, options)
    if found.unread:
        complain(f"there are no sounds for {' '.join(found.unread)}: they are left out")
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
    else:
        for piece in found.pieces:
            print(piece.words)
    if not found.pieces:
        raise Failure("nothing would be said: the text holds nothing that can be spoken")
